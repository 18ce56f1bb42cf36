"""What a group, a type of storage in it, a storage or an instance holds, with its limit and marks. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvcm_platform.core.migration import capacity_of
from kvcm_platform.core.points import Levels
from kvcm_platform.core.reclaim.marks import Mark, mark_of, storage_mark
from kvcm_platform.core.registry import GroupEntry, StorageEntry
from kvcm_platform.core.types import StorageType

WRITING, SERVING, PENDING, BLOCKS = range(4)
Sums = list[int]
"""Bytes writing, serving and pending, and blocks of the first two."""


@dataclass(slots=True)
class GroupReading:
    """What one group holds. Keys: storage number; instance number; type of storage."""

    reserved_bytes: int = 0
    reserved_by_type: dict[StorageType, int] = field(default_factory=dict)
    by_storage: dict[int, Sums] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))
    by_instance: dict[int, Sums] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))
    by_type: dict[StorageType, Sums] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))


def instance_levels(number: int, reading: GroupReading) -> Levels:
    """Of an instance of the group, which has no limit of its own."""
    return _levels(reading.by_instance.get(number, [0, 0, 0, 0]))


def group_levels(group: GroupEntry, reading: GroupReading) -> Levels:
    limit = group.quota.capacity_bytes
    return _levels(
        *(_sum(reading.by_storage.values()), reading.reserved_bytes, limit),
        mark_of(group.reclaim, limit, used_bytes=group.reclaim.used_bytes),
    )


def type_levels(group: GroupEntry, kind: StorageType, reading: GroupReading) -> Levels:
    """Of one type of storage in a group."""
    limit = group.quota.per_type.get(kind)
    return _levels(
        *(reading.by_type.get(kind, [0, 0, 0, 0]), reading.reserved_by_type.get(kind, 0), limit),
        None if limit is None else mark_of(group.reclaim, limit),
    )


def storage_levels(storage: StorageEntry, readings: Mapping[str, GroupReading]) -> Levels:
    """Of all groups together. Reservations name a type and no storage, so none are among them."""
    numbers = storage.numbers
    parts = [
        reading.by_storage[number]
        for reading in readings.values()
        for number in numbers
        if number in reading.by_storage
    ]
    return _levels(_sum(parts), 0, capacity_of(storage), storage_mark(storage))


def marks_of_storage(storage: StorageEntry) -> tuple[int | None, int | None, int | None]:
    """Limit, high and low mark, each None where there is none."""
    levels = storage_levels(storage, {})
    return levels.limit_bytes, levels.high_bytes, levels.low_bytes


def _sum(parts: Iterable[Sums]) -> Sums:
    sums = [0, 0, 0, 0]
    for part in parts:
        for what, amount in enumerate(part):
            sums[what] += amount
    return sums


def _levels(
    sums: Sums, reserved_bytes: int = 0, limit_bytes: int | None = None, mark: Mark | None = None
) -> Levels:
    writing, serving, pending, blocks = sums
    if mark is not None and limit_bytes is not None and mark.reached_at > limit_bytes:
        mark = None  # no trigger of its own: the limit alone acts
    return Levels(
        used_bytes=writing + serving + pending,
        writing_bytes=writing,
        serving_bytes=serving,
        pending_bytes=pending,
        reserved_bytes=reserved_bytes,
        blocks=blocks,
        limit_bytes=limit_bytes,
        high_bytes=None if mark is None else mark.high,
        low_bytes=None if mark is None else mark.low,
    )
