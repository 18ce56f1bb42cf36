"""When a group has to give blocks back, and how much (DESIGN 6): high marks set reclaim off, low ones end it.

What is compared is *live*: written, served, or reserved by Starts under way. What waits for its deletion
is on its way out, so no demand asks for it a second time; the hard quota alone counts it until it is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kvcm_platform.core.capacity import LOW_BELOW_HIGH
from kvcm_platform.core.migration import capacity_of, relieves
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, ReclaimSettings, Registry, StorageEntry
from kvcm_platform.core.types import StorageType

T = TypeVar("T")
NOTHING: Mapping[Subject, int] = MappingProxyType({})

LOW_OF_USED_BYTES = Fraction(19, 20)
"""Of the high mark, where that is a number of bytes."""


class Scope(StrEnum):
    """What a limit is for: the group, one type of storage in it, one storage, the keys of one instance."""

    GROUP = "group"
    STORAGE_TYPE = "storage_type"
    STORAGE = "storage"
    KEYS = "keys"


class Subject(NamedTuple):
    """One limit of a group. `name`: the group, the type's value, the storage, or the instance's id."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Marks of one limit, in its own unit. `reached_at` is the least that sets reclaim off."""

    high: int
    low: int
    reached_at: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What has to go to bring one limit down to its low mark. Bytes; of Scope.KEYS blocks.

    `need` is above 0, and may be more than what can be evicted: reservations and blocks that are being
    written count as used. Of a storage that groups share it is the group's part alone.
    """

    scope: Scope
    subject: str
    used: int
    limit: int
    high: int
    low: int
    need: int
    numbers: frozenset[int] | None = None
    """Storage numbers that the blocks have to lie on; None = any."""
    instance_number: int | None = None
    """The instance that they have to be of; None = any."""
    wanted: int = 0
    """What the largest Start asked for that was refused; `low` leaves room for it."""

    @property
    def name(self) -> Subject:
        return Subject(self.scope, self.subject)

    @property
    def is_over_limit(self) -> bool:
        """Whether even the limit is passed, as after it was lowered."""
        return self.used > self.limit

    def covers(self, instance_number: int, storage_number: int) -> bool:
        """Whether blocks of this instance on this storage count."""
        return self.instance_number in (None, instance_number) and (
            self.numbers is None or storage_number in self.numbers
        )

    def left(self, taken: Mapping[tuple[int, int], tuple[int, int]]) -> int:
        """What is left of the need after blocks were taken for whatever demand, since scopes overlap.

        `taken`: (instance number, storage number) -> (blocks, bytes).
        """
        unit = 0 if self.scope is Scope.KEYS else 1
        given = sum(amounts[unit] for where, amounts in taken.items() if self.covers(*where))
        return max(0, self.need - given)


@dataclass(frozen=True)
class ReclaimUsage:
    """Live amounts of some groups, read by `index.held_bytes.read_usage`."""

    bytes_of: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(group number, storage number) -> bytes written or served."""
    reserved_of: Mapping[int, int] = field(default_factory=dict)
    """Group number -> bytes of its open reservations."""
    reserved_by_type: Mapping[tuple[int, StorageType], int] = field(default_factory=dict)
    blocks_of: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(group number, instance number) -> keys with a block that is written or served."""

    def of_group(self, group: int) -> int:
        """All live bytes of a group, its reservations included."""
        return sum(self._by_group.get(group, {}).values()) + self.reserved_of.get(group, 0)

    def on(self, numbers: Collection[int], group: int | None = None) -> int:
        """Bytes written or served on these storage numbers, of one group or of all."""
        held = self._by_number if group is None else self._by_group.get(group, {})
        return sum(held.get(number, 0) for number in numbers)

    @cached_property
    def _by_group(self) -> dict[int, dict[int, int]]:
        found: dict[int, dict[int, int]] = {}
        for (group, number), size in self.bytes_of.items():
            found.setdefault(group, {})[number] = size
        return found

    @cached_property
    def _by_number(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for (_, number), size in self.bytes_of.items():
            found[number] = found.get(number, 0) + size
        return found

    def updated(self, fresh: ReclaimUsage, groups: Collection[int]) -> ReclaimUsage:
        """The same with these groups as `fresh` says."""
        return ReclaimUsage(
            {**_without(self.bytes_of, groups), **fresh.bytes_of},
            {
                **{group: size for group, size in self.reserved_of.items() if group not in groups},
                **fresh.reserved_of,
            },
            {**_without(self.reserved_by_type, groups), **fresh.reserved_by_type},
            {**_without(self.blocks_of, groups), **fresh.blocks_of},
        )


def _without(amounts: Mapping[tuple[int, T], int], groups: Collection[int]) -> dict[tuple[int, T], int]:
    return {where: amount for where, amount in amounts.items() if where[0] not in groups}


def mark_of(reclaim: ReclaimSettings, limit: int, *, used_bytes: int = 0) -> Mark:
    """The marks of a limit. `used_bytes` counts only where the settings have no ratio; 0 = the limit itself.

    A ratio above 1 means "never by this trigger": then, as without any trigger, only a limit below what is
    used acts. At a ratio of exactly 1 the limit itself does when it is reached.
    """
    high, low = levels_of(reclaim, limit, used_bytes=used_bytes)
    reached_at = ceil(high) if high < limit or reclaim.used_ratio == 1 else limit + 1
    return Mark(ceil(high), floor(low), reached_at)


def levels_of(reclaim: ReclaimSettings, limit: int, *, used_bytes: int = 0) -> tuple[Fraction, Fraction]:
    """The high and the low mark, as `mark_of` has them before they are rounded to whole units."""
    ratio = Fraction(repr(float(reclaim.used_ratio)))
    high = min(ratio, Fraction(1)) * limit if ratio > 0 else Fraction(min(used_bytes or limit, limit))
    low = high - min(LOW_BELOW_HIGH * limit, high / 10)
    if ratio == 0 and used_bytes:
        low = LOW_OF_USED_BYTES * high
    if reclaim.low_watermark_ratio is not None:
        wanted = Fraction(repr(float(reclaim.low_watermark_ratio))) * limit
        low = wanted if wanted < high else low
    return high, low


def demands(
    registry: Registry,
    group: GroupEntry,
    usage: ReclaimUsage,
    *,
    refused: Mapping[Subject, int] = NOTHING,
    begun: Mapping[Subject, int] = NOTHING,
) -> list[Demand]:
    """What has to go of a group now, the narrowest scopes first and the group's own last.

    A limit that a Start was `refused` for is brought down to its low mark though it is below the high
    one, unless the group's ratio is above 1; one that a run has `begun` with is, too. Both say how much
    such a Start wanted (0 = nobody knows): where that is more than the low mark leaves, more has to go.
    Where groups share a storage all should ask before any of them gives: afterwards it may be below its
    high mark.
    """
    pressed = _largest(begun, refused) if reclaim_acts_on_refusals(group.reclaim) else begun
    found = [
        *_of_storages(registry, group, usage, _largest(begun, refused)),
        *_of_types(registry, group, usage, pressed),
        *_of_keys(registry.instances_of(group.name), group, usage, pressed),
    ]
    limit = group.quota.capacity_bytes
    mark = mark_of(group.reclaim, limit, used_bytes=group.reclaim.used_bytes)
    own = _demand(Subject(Scope.GROUP, group.name), usage.of_group(group.number), limit, mark, pressed)
    return found if own is None else [*found, own]


def reclaim_acts_on_refusals(reclaim: ReclaimSettings) -> bool:
    """A ratio above 1 turns it off: such a group refuses, and gives nothing back for that."""
    return reclaim.used_ratio <= 1


def _largest(one: Mapping[Subject, int], other: Mapping[Subject, int]) -> dict[Subject, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}


def _demand(
    name: Subject, used: int, limit: int, mark: Mark, pressed: Mapping[Subject, int]
) -> Demand | None:
    # What is larger than the limit itself fits in no case, so nothing goes for it.
    wanted = pressed.get(name, 0) if pressed.get(name, 0) <= limit else 0
    low = min(mark.low, limit - wanted)
    if used <= low or (used < mark.reached_at and name not in pressed):
        return None
    return Demand(name.scope, name.name, used, limit, mark.high, low, used - low, wanted=wanted)


def _of_types(
    registry: Registry, group: GroupEntry, usage: ReclaimUsage, pressed: Mapping[Subject, int]
) -> Iterator[Demand]:
    for kind, limit in group.quota.per_type.items():
        numbers = frozenset(n for s in registry.storages.values() if s.type is kind for n in s.numbers)
        used = usage.on(numbers, group.number) + usage.reserved_by_type.get((group.number, kind), 0)
        mark = mark_of(group.reclaim, limit)
        found = _demand(Subject(Scope.STORAGE_TYPE, kind.value), used, limit, mark, pressed)
        if found is not None:
            yield replace(found, numbers=numbers)


def _of_storages(
    registry: Registry, group: GroupEntry, usage: ReclaimUsage, pressed: Mapping[Subject, int]
) -> Iterator[Demand]:
    """Of a storage that groups have in common each gives as large a part as it has of what lies there.

    Blocks that are to move on to a group's other storage are not dropped for the mark of the first: writes
    that it has no room for meanwhile go to the next candidate. A Start that is refused is another matter.
    """
    for storage in registry.storages.values():
        mark = storage_mark(storage)
        if mark is None or storage.is_leaving:
            continue
        is_pressed = Subject(Scope.STORAGE, storage.name) in pressed
        if not is_pressed and relieves(registry, group, storage):
            continue
        numbers = frozenset(storage.numbers)
        own = usage.on(numbers, group.number)
        if not own:
            continue
        used = usage.on(numbers)
        capacity = capacity_of(storage)
        limit = mark.high if capacity is None else capacity
        found = _demand(Subject(Scope.STORAGE, storage.name), used, limit, mark, pressed)
        if found is not None:
            yield replace(found, numbers=numbers, need=min(own, -(-found.need * own // used)))


def storage_mark(storage: StorageEntry) -> Mark | None:
    """The marks of a storage as they were published; None = it has none."""
    if storage.high_bytes is None or storage.low_bytes is None:
        return None
    return Mark(storage.high_bytes, storage.low_bytes, storage.high_bytes)


def _of_keys(
    instances: Sequence[InstanceEntry], group: GroupEntry, usage: ReclaimUsage, pressed: Mapping[Subject, int]
) -> Iterator[Demand]:
    limit = group.meta_indexer.max_key_count
    mark = mark_of(group.reclaim, limit)
    for instance in instances:
        used = usage.blocks_of.get((group.number, instance.number), 0)
        found = _demand(Subject(Scope.KEYS, instance.instance_id), used, limit, mark, pressed)
        if found is not None:
            yield replace(found, instance_number=instance.number)
