"""Where a new block goes: the group's candidates in order, filtered by state and preference (WIRE.md 3.7)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import Code, DomainError
from .registry import GroupEntry, Registry, StorageEntry
from .types import MEDIA_SSD, READ_WEIGHT, Placement, PreferStrategy, StorageType

_PREFERRED: dict[PreferStrategy, StorageType] = {
    PreferStrategy.ALWAYS_3FS: StorageType.HF3FS,
    PreferStrategy.PREFER_3FS: StorageType.HF3FS,
    PreferStrategy.ALWAYS_MOONCAKE: StorageType.MOONCAKE,
    PreferStrategy.PREFER_MOONCAKE: StorageType.MOONCAKE,
    PreferStrategy.ALWAYS_TAIR_MEMPOOL: StorageType.TAIR_MEMPOOL,
    PreferStrategy.PREFER_TAIR_MEMPOOL: StorageType.TAIR_MEMPOOL,
    PreferStrategy.ALWAYS_TAIR_MEMPOOL_SSD: StorageType.TAIR_MEMPOOL,
    PreferStrategy.PREFER_TAIR_MEMPOOL_SSD: StorageType.TAIR_MEMPOOL,
    PreferStrategy.ALWAYS_VCNS_3FS: StorageType.VCNS_HF3FS,
    PreferStrategy.PREFER_VCNS_3FS: StorageType.VCNS_HF3FS,
    PreferStrategy.ALWAYS_NFS: StorageType.NFS,
    PreferStrategy.PREFER_NFS: StorageType.NFS,
}
_ON_SSD = frozenset({PreferStrategy.ALWAYS_TAIR_MEMPOOL_SSD, PreferStrategy.PREFER_TAIR_MEMPOOL_SSD})
_STRICT = frozenset(strategy for strategy in _PREFERRED if strategy.startswith("always_"))


def is_preferred(storage: StorageEntry, strategy: PreferStrategy) -> bool:
    """Whether a storage is of the kind that a strategy names; one that names none prefers all."""
    kind = _PREFERRED.get(strategy)
    if kind is None:
        return True
    return storage.type is kind and (strategy not in _ON_SSD or storage.spec.get("media_type") == MEDIA_SSD)


def in_order(candidates: Sequence[StorageEntry], strategy: PreferStrategy) -> list[StorageEntry]:
    """ALWAYS_x leaves only storages of kind x; PREFER_x puts them first; otherwise the order stays."""
    if strategy in _STRICT:
        return [storage for storage in candidates if is_preferred(storage, strategy)]
    return sorted(candidates, key=lambda storage: not is_preferred(storage, strategy))


def balanced(candidates: Sequence[StorageEntry], strategy: PreferStrategy) -> list[StorageEntry]:
    """The same storages, each first among its equals as often as its weight times its free space says.

    A storage without a weight has 1, one with weight 0 comes last. Free space counts where all of them
    know theirs. Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis, 2006).
    """
    is_known = all(storage.free_bytes is not None for storage in candidates)

    def key(storage: StorageEntry) -> tuple[bool, float]:
        share: float = 1 if storage.weight is None else storage.weight
        if is_known:
            share *= storage.free_bytes or 0
        draw = random.expovariate(share) if share > 0 else math.inf
        return not is_preferred(storage, strategy), draw

    return sorted(candidates, key=key)


def write_candidates(registry: Registry, group: GroupEntry) -> list[StorageEntry]:
    """Storages to try for a write, best first. Raises IO_ERROR that says why each cannot be used."""
    known = registry.storages_of(group)
    wanted = in_order(known, group.prefer_strategy)
    usable = [storage for storage in wanted if storage.is_writable]
    if usable:
        if group.placement is Placement.BALANCED and len(usable) > 1:
            return balanced(usable, group.prefer_strategy)
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
