"""When blocks move between storages, and how many (DESIGN 5): the rules of a group's migration policy.

Bytes on their way out count as gone: a round never takes twice what the last one has marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .registry import GroupEntry, MigrationPolicy, Registry, StorageEntry
from .types import Retention


class Direction(StrEnum):
    """DEMOTION: cold blocks leave the source of a policy. PROMOTION: used ones come back.
    REQUEST: what somebody asked for.
    """

    DEMOTION = "demotion"
    PROMOTION = "promotion"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """What somebody asked for: blocks of a group, or of one instance, from a storage to another."""

    id: str
    group: str
    instance_id: str
    source: str
    target: str
    retention: Retention
    idle_seconds: int = 0
    """Only blocks that were not used for so long; 0 = all."""
    most_bytes: int = 0
    """0 = no limit. What earlier rounds moved is taken off by the caller."""
    max_bytes_per_second: int = 0
    is_verified: bool = True

    @property
    def name(self) -> str:
        return f"r:{self.id}"


class Measure(StrEnum):
    """What the share of a source is of."""

    TYPE_QUOTA = "type_quota"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`own_bytes` of the `used_bytes` are the group's."""

    measure: Measure
    used_bytes: int
    own_bytes: int
    capacity_bytes: int

    @property
    def ratio(self) -> float:
        if self.capacity_bytes <= 0:
            return 1.0 if self.used_bytes else 0.0
        return self.used_bytes / self.capacity_bytes

    def excess(self, ratio: float) -> int:
        """Bytes of the group above a share; of a storage that groups have in common, its part of them."""
        above = self.used_bytes - int(ratio * self.capacity_bytes)
        if above <= 0 or self.used_bytes <= 0:
            return 0
        return min(self.own_bytes, -(-above * self.own_bytes // self.used_bytes))


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes that are written or served, by the group and storage number they belong to."""

    bytes_of: dict[tuple[int, int], int]

    def of(self, numbers: Sequence[int], group: int | None = None) -> int:
        wanted = frozenset(numbers)
        return sum(
            size
            for (owner, number), size in self.bytes_of.items()
            if number in wanted and group in (None, owner)
        )


def capacity_of(storage: StorageEntry) -> int | None:
    """Bytes that a storage holds at most: what an operator set, else the memory of a pool's segments."""
    if storage.capacity_bytes is not None:
        return storage.capacity_bytes
    sizes = [segment.size_bytes for segment in storage.segments if segment.is_available]
    return sum(sizes) if sizes else None


def occupancies(registry: Registry, group: GroupEntry, source: StorageEntry, usage: Usage) -> list[Occupancy]:
    """The shares that a policy of the group compares; empty = nothing says how much the source holds."""
    found = []
    quota = group.quota.per_type.get(source.type)
    if quota is not None:
        alike = [number for s in registry.storages.values() if s.type is source.type for number in s.numbers]
        own = usage.of(alike, group.number)
        found.append(Occupancy(Measure.TYPE_QUOTA, own, own, quota))
    capacity = capacity_of(source)
    if capacity is not None:
        used, own = usage.of(source.numbers), usage.of(source.numbers, group.number)
        found.append(Occupancy(Measure.STORAGE, used, own, capacity))
    return found


def demand(policy: MigrationPolicy, found: Sequence[Occupancy]) -> int:
    """Bytes that have to leave the source: down to the low mark, once a share is above the trigger."""
    over = [share for share in found if share.ratio > policy.trigger_ratio]
    return max((share.excess(policy.low_ratio) for share in over), default=0)


def room(policy: MigrationPolicy, found: Sequence[Occupancy]) -> int | None:
    """Bytes that may come back before cold ones would have to leave; None = as many as there are."""
    left = [int(policy.trigger_ratio * share.capacity_bytes) - share.used_bytes for share in found]
    return max(0, min(left)) if left else None


def obstacle(source: StorageEntry | None, target: StorageEntry | None, policy_names: tuple[str, str]) -> str:
    """Why nothing can be copied from `source` to `target` now; empty when it can."""
    for storage, name in zip((source, target), policy_names, strict=True):
        if storage is None:
            return f"{name}: does not exist"
    if source is not None and not source.is_served:
        return f"{source.name}: {source.refusal}"
    if target is not None and not target.is_writable:
        return f"{target.name}: {target.refusal}"
    return ""


def relieves(registry: Registry, group: GroupEntry, storage: StorageEntry) -> bool:
    """Whether the group's cold blocks leave the storage for another one now, so that none need be dropped."""
    policy = group.migration
    if policy is None or not policy.is_enabled or policy.retention is not Retention.DELETE_SOURCE:
        return False
    if policy.source != storage.name:
        return False
    return not obstacle(storage, registry.storages.get(policy.target), (policy.source, policy.target))


def promoting(registry: Registry) -> dict[int, tuple[int, ...]]:
    """Instances whose uses are counted: number -> storage numbers that their blocks come back from."""
    found: dict[str, tuple[int, ...]] = {}
    for group in registry.groups.values():
        policy = group.migration
        if policy is not None and policy.is_enabled and policy.promote_after_hits:
            target = registry.storages.get(policy.target)
            if target is not None:
                found[group.name] = target.numbers
    if not found:
        return {}
    return {entry.number: found[entry.group] for entry in registry.instances.values() if entry.group in found}
