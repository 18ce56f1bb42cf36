"""Where a new block goes: the group's candidates in order, filtered by state and preference (WIRE.md 3.7)."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import Code, DomainError
from .registry import GroupEntry, Registry, StorageEntry
from .types import PreferStrategy, StorageType

_PREFERRED: dict[PreferStrategy, tuple[StorageType, bool]] = {
    PreferStrategy.ALWAYS_3FS: (StorageType.HF3FS, True),
    PreferStrategy.PREFER_3FS: (StorageType.HF3FS, False),
    PreferStrategy.ALWAYS_MOONCAKE: (StorageType.MOONCAKE, True),
    PreferStrategy.PREFER_MOONCAKE: (StorageType.MOONCAKE, False),
    PreferStrategy.ALWAYS_TAIR_MEMPOOL: (StorageType.TAIR_MEMPOOL, True),
    PreferStrategy.PREFER_TAIR_MEMPOOL: (StorageType.TAIR_MEMPOOL, False),
    PreferStrategy.ALWAYS_VCNS_3FS: (StorageType.VCNS_HF3FS, True),
    PreferStrategy.PREFER_VCNS_3FS: (StorageType.VCNS_HF3FS, False),
}


def in_order(candidates: Sequence[StorageEntry], strategy: PreferStrategy) -> list[StorageEntry]:
    """ALWAYS_x leaves only storages of type x; PREFER_x puts them first; otherwise the order stays."""
    if strategy not in _PREFERRED:
        return list(candidates)
    kind, is_strict = _PREFERRED[strategy]
    preferred = [storage for storage in candidates if storage.type is kind]
    if is_strict:
        return preferred
    return preferred + [storage for storage in candidates if storage.type is not kind]


def write_candidates(registry: Registry, group: GroupEntry) -> list[StorageEntry]:
    """Storages to try for a write, best first. Raises IO_ERROR that says why each cannot be used."""
    known = registry.storages_of(group)
    wanted = in_order(known, group.prefer_strategy)
    usable = [storage for storage in wanted if storage.is_writable]
    if usable:
        return usable
    reasons = [f"{storage.name}: {storage.refusal}" for storage in wanted]
    reasons += [
        f"{name}: does not exist" for name in group.storage_candidates if name not in registry.storages
    ]
    reasons += [f"{s.name}: not of the type of {group.prefer_strategy}" for s in known if s not in wanted]
    raise DomainError(Code.IO_ERROR, f"group {group.name} has no usable storage ({'; '.join(reasons)})")


def check_readable(registry: Registry, group: GroupEntry) -> None:
    """Raises IO_ERROR when none of the group's storages can be read now."""
    known = registry.storages_of(group)
    if any(storage.is_served for storage in known):
        return
    reasons = [f"{s.name}: {s.refusal}" for s in known] or ["no candidate exists"]
    raise DomainError(Code.IO_ERROR, f"all storages are unavailable ({'; '.join(reasons)})")
