"""Where a new block goes: the group's candidates in order, filtered by state and preference (WIRE.md 3.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import Code, DomainError
from .registry import GroupEntry, Registry, StorageEntry
from .types import READ_WEIGHT, PreferStrategy, StorageType

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


@dataclass(frozen=True, slots=True)
class Serving:
    """Storages whose locations may be handed out now: their numbers, and how often each is chosen."""

    numbers: frozenset[int]
    weights: Mapping[int, int]
    is_readable: bool
    """Whether one of the group's own candidates is among them."""


def serving(registry: Registry, group: GroupEntry) -> Serving:
    """What readers of the group may get.

    A weight set by the operator counts always; the types' static ones only while all storages of
    the group are there, otherwise each counts 1 (WIRE.md 3.4). A storage that recovers has its
    weight back.
    """
    known = registry.storages_of(group)
    is_whole = all(storage.is_served for storage in known)

    def weight(storage: StorageEntry) -> int:
        if storage.weight is not None:
            return storage.weight
        return READ_WEIGHT[storage.type] if is_whole else 1

    weights = {number: weight(s) for s in registry.storages.values() for number in s.served_numbers}
    return Serving(frozenset(weights), weights, any(storage.is_served for storage in known))


def unreadable(registry: Registry, group: GroupEntry) -> DomainError:
    """IO_ERROR that says why none of the group's storages can be read now."""
    known = registry.storages_of(group)
    reasons = [f"{s.name}: {s.refusal}" for s in known] or ["no candidate exists"]
    return DomainError(Code.IO_ERROR, f"all storages are unavailable ({'; '.join(reasons)})")


def spread(candidates: Sequence[StorageEntry], holders: Mapping[int, int]) -> list[StorageEntry]:
    """Candidates for further replicas: those that hold fewest of the blocks first, else in order."""
    return sorted(candidates, key=lambda storage: sum(holders.get(number, 0) for number in storage.numbers))
