"""What every group, storage and instance holds now, out of what the shards pushed to their groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import redis

from apps.usage.choices import Kind, SeriesKey
from kvcm_platform.core.migration import capacity_of
from kvcm_platform.core.points import Levels
from kvcm_platform.core.reclaim.marks import Mark, mark_of, storage_mark
from kvcm_platform.core.registry import GroupEntry, Registry, StorageEntry
from kvcm_platform.core.types import STORAGE_TYPE_BY_WIRE, StorageType
from kvcm_platform.index import keyspace
from kvcm_platform.index.stats import parse_vector
from kvcm_platform.index.storage_refs import number_of, type_of

_WRITING, _SERVING, _PENDING, _BLOCKS = range(4)
_STATES = {"w": _WRITING, "s": _SERVING, "p": _PENDING}
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


def read_groups(client: redis.Redis, groups: Mapping[str, GroupEntry]) -> dict[str, GroupReading]:
    """One pipeline for all. A group whose own Redis is away is left out. Raises redis.RedisError.

    `client` is `figures_client()`, to which one that is away seems empty: but every group has limits.
    """
    pipeline = client.pipeline(transaction=False)
    for group in groups.values():
        base = keyspace.group(group.number)
        pipeline.hget(keyspace.group_limits(base), "total")
        pipeline.hgetall(base)
        pipeline.hgetall(keyspace.group_vectors(base))
    replies = iter(pipeline.execute())
    found = {}
    for name in groups:
        limit, totals, vectors = next(replies), next(replies), next(replies)
        if limit is not None:
            found[name] = _reading(totals, vectors)
    return found


def _reading(totals: Mapping[bytes, bytes], vectors: Mapping[bytes, bytes]) -> GroupReading:
    reading = GroupReading(reserved_bytes=int(totals.get(b"r", 0)))
    for wire, kind in STORAGE_TYPE_BY_WIRE.items():
        reserved = int(totals.get(b"r:%d" % wire, 0))
        if reserved:
            reading.reserved_by_type[kind] = reserved
    for shard, raw in vectors.items():
        instance = int(shard.partition(b":")[0])
        for (ref, state), (size, count) in parse_vector(raw).items():
            what = _STATES[state]
            _add(reading, ref, instance, what, size)
            if what != _PENDING:
                _add(reading, ref, instance, _BLOCKS, count)
    return reading


def _add(reading: GroupReading, ref: int, instance: int, what: int, amount: int) -> None:
    reading.by_storage[number_of(ref)][what] += amount
    reading.by_instance[instance][what] += amount
    reading.by_type[type_of(ref)][what] += amount


def levels_of_all(registry: Registry, readings: Mapping[str, GroupReading]) -> dict[SeriesKey, Levels]:
    """The levels of what the registry has; groups without a reading and their instances are left out."""
    found: dict[SeriesKey, Levels] = {}
    for name, reading in readings.items():
        if name in registry.groups:
            found[SeriesKey(Kind.GROUP, name)] = group_levels(registry.groups[name], reading)
    for storage in registry.storages.values():
        found[SeriesKey(Kind.STORAGE, storage.name)] = storage_levels(storage, readings)
    for instance in registry.instances.values():
        known = readings.get(instance.group)
        if known is not None:
            key = SeriesKey(Kind.INSTANCE, instance.instance_id, instance.group)
            found[key] = _levels(known.by_instance.get(instance.number, [0, 0, 0, 0]))
    return found


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
