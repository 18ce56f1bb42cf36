"""Compares what is taken of memory segments with what refers to it, range by range.

May run while blocks are written and deleted. A range moves from its lease to the session, the block's
record, the pending deletions and perhaps the orphans, never back, so one look at each in this order
misses none. Nothing refers to one that was given back meanwhile either; its id is never given again, so
what is leaked is still taken afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kvcm_platform.core.pool_layout import SLAB_BYTES, PoolRange, pool_range, slot_class
from kvcm_platform.core.registry import InstanceEntry, PoolSegment, StorageEntry
from kvcm_platform.core.removal import MIN_DELETE_DELAY_MS
from kvcm_platform.core.types import LocationStatus
from kvcm_platform.core.uris import parse_uri

from . import codec, keyspace, placing
from .gone import LOST
from .pools import FREE_CHUNK, Lease, bucket_of, give_back, taken_ids
from .redis_index import RedisIndex
from .scanning import fields_of
from .shards import ShardRef, shards_of
from .trims import Span

_SESSION_ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class Holder:
    """A location that needs its range: it is written or served."""

    instance: InstanceEntry
    shard: ShardRef
    key: bytes
    location_id: str
    range: PoolRange


@dataclass(slots=True)
class SegmentCount:
    """`taken` and `referred` are numbers of ranges."""

    storage: str
    segment: PoolSegment
    taken: int = 0
    referred: int = 0
    leaked: list[int] = field(default_factory=list)
    """Ids that are taken and that nothing refers to."""
    missing: list[Holder] = field(default_factory=list)
    """Locations whose ranges others may get, or have."""

    @property
    def has_drift(self) -> bool:
        return bool(self.leaked or self.missing)


class _References:
    """Range ids by the number of their segment."""

    def __init__(self, numbers: frozenset[int]) -> None:
        self.ids: dict[int, set[int]] = {number: set() for number in numbers}
        self.holders: dict[int, dict[int, Holder]] = {number: {} for number in numbers}

    def ranges(self, location: codec.StoredLocation) -> list[PoolRange]:
        """Those of a location on one of the segments, noted."""
        if location.storage_number not in self.ids:
            return []
        ranges = [pool_range(parse_uri(uri)) for _, uri in location.specs()]
        self.ids[location.storage_number].update(one.range_id for one in ranges)
        return ranges


async def recount_pools(
    index: RedisIndex,
    storages: Sequence[StorageEntry],
    read_instances: Callable[[], Awaitable[Sequence[InstanceEntry]]],
    *,
    repair: bool,
) -> list[SegmentCount]:
    """One count a segment whose memory this index gives out.

    `read_instances` gives all instances of the index. It is asked after what is taken was read: what one
    took that was registered meanwhile must not look leaked.

    With `repair` leaked ranges are given back, and missing ones taken; a location whose range another
    has meanwhile is removed. The counts say what was found before.
    """
    counts = {
        segment.number: SegmentCount(storage.name, segment)
        for storage in storages
        for segment in storage.segments
    }
    homes = await index.connection.pipeline(
        [("HGET", keyspace.storage(number), "p:home") for number in counts]
    )
    counts = {number: counts[number] for number, home in zip(list(counts), homes, strict=True) if not home}
    taken = {number: await _taken(index, number) for number in counts}
    found = await _references(index, frozenset(counts), await read_instances())
    for number, count in counts.items():
        count.taken, count.referred = len(taken[number]), len(found.ids[number])
        unknown = taken[number] - found.ids[number]
        count.leaked = sorted(unknown & await _taken(index, number)) if unknown else []
        lacking = [one for id, one in found.holders[number].items() if id not in taken[number]]
        count.missing = [one for one in lacking if await _is_missing(index, number, one)]
        if repair:
            await _repair(index, count)
    return list(counts.values())


async def _taken(index: RedisIndex, number: int) -> set[int]:
    ids: set[int] = set()
    async for bucket, value in fields_of(index, keyspace.pool_ranges(keyspace.storage(number))):
        ids.update(taken_ids(bucket, value))
    return ids


async def _references(
    index: RedisIndex, numbers: frozenset[int], instances: Sequence[InstanceEntry]
) -> _References:
    found = _References(numbers)
    for number in numbers:
        async for name, raw in fields_of(index, keyspace.pool_leases(keyspace.storage(number))):
            found.ids[number].update(Lease.unpack(name, raw).ids)
    shards = [(entry, shard) for entry in instances for shard in shards_of(entry)]
    for entry, shard in shards:
        await _in_sessions(index, entry, shard, found)
        await _in_blocks(index, entry, shard, found)
        async for _, value in fields_of(index, keyspace.pending(shard.base)):
            for location in codec.locations(codec.split_pending(value)[2]):
                found.ranges(location)
    for number in numbers:
        async for _, raw in fields_of(index, keyspace.orphans(keyspace.storage(number))):
            for location in codec.locations(raw):
                found.ranges(location)
    return found


async def _in_sessions(index: RedisIndex, entry: InstanceEntry, shard: ShardRef, found: _References) -> None:
    async for name, raw in fields_of(index, keyspace.sessions(shard.base)):
        if len(name) != _SESSION_ID_BYTES:
            continue
        placement = codec.SessionHeader.unpack(raw).placement
        places = placing.unpack_placement(placement, entry, shard.shard).places
        if places is not None and places.number in found.ids:
            for run in places.runs[shard.shard]:
                found.ids[places.number].update(run.ids)


async def _in_blocks(index: RedisIndex, entry: InstanceEntry, shard: ShardRef, found: _References) -> None:
    async for key, record in fields_of(index, keyspace.blocks(shard.base)):
        for location in codec.locations(record):
            for one in found.ranges(location):
                if location.status != LocationStatus.DELETING:
                    holder = Holder(entry, shard, key, location.location_id, one)
                    found.holders[location.storage_number][one.range_id] = holder


async def _is_missing(index: RedisIndex, number: int, holder: Holder) -> bool:
    """Whether a location needs a range that is free, now that both are looked at again."""
    bucket, name = bucket_of(holder.range.range_id), keyspace.pool_ranges(keyspace.storage(number))
    value = await index.connection.call("HGET", name, bucket)
    if value is not None and holder.range.range_id in taken_ids(bucket, value):
        return False
    record = await index.connection.call("HGET", keyspace.blocks(holder.shard.base), holder.key)
    found = [one for one in codec.locations(record or b"") if one.location_id == holder.location_id]
    return any(one.status != LocationStatus.DELETING for one in found)


async def _repair(index: RedisIndex, count: SegmentCount) -> None:
    number = count.segment.number
    for at in range(0, len(count.leaked), FREE_CHUNK):
        await give_back(index, number, count.leaked[at : at + FREE_CHUNK])
    gone: dict[tuple[InstanceEntry, ShardRef], dict[bytes, str]] = {}
    for holder in count.missing:
        if not await _restore(index, count.segment, holder):
            locations = gone.setdefault((holder.instance, holder.shard), {})
            locations[holder.key] = locations.get(holder.key, "") + holder.location_id
    for (entry, shard), locations in gone.items():
        await _remove(index, entry, shard, locations)


async def _restore(index: RedisIndex, segment: PoolSegment, holder: Holder) -> bool:
    kind = slot_class(holder.range.size)
    first = kind.first_slab(holder.range.offset)
    if first is None:
        return False
    slot = (holder.range.offset - first * SLAB_BYTES) // kind.slot_bytes
    slabs = segment.size_bytes // SLAB_BYTES
    args = (holder.range.range_id, first, slot, kind.slot_bytes, kind.slabs, kind.slots, slabs)
    return bool(await index.function("kvcm_pool_restore", keyspace.storage(segment.number), *args))


async def _remove(
    index: RedisIndex, entry: InstanceEntry, shard: ShardRef, locations: Mapping[bytes, str]
) -> None:
    items = list(locations.items())
    span = Span("named", MIN_DELETE_DELAY_MS)
    for at in range(0, len(items), FREE_CHUNK):
        part = items[at : at + FREE_CHUNK]
        await index.function(
            *("kvcm_remove", shard.base, span.mode, span.delay_ms, 0, 0, b"".join(key for key, _ in part)),
            *(LOST, *(ids for _, ids in part)),
        )
    index.pusher.mark(shard)
    index.on_removal(entry)
