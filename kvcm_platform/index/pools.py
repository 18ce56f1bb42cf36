"""Memory of pool segments for the blocks of a Start: taken under leases, noted by its session, settled.

A lease outlives a process that dies in between. Past the Start's insert-by time `sweep_leases` finds
out whether the session came to be; if not, the memory is given back (index/lua/9_pool.lua).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvcm_platform.core import pool_layout
from kvcm_platform.core.places import NoRoom, PoolPlaces, RangeRun
from kvcm_platform.core.pool_layout import SLAB_BYTES, SlotClass
from kvcm_platform.core.ports import WritePlan
from kvcm_platform.core.registry import PoolSegment, StorageEntry

from . import codec, keyspace, placing, tickets
from .connection import IndexUnavailable
from .link import RESERVATION_MARGIN_MS
from .shards import ShardRef, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

CHUNK = 512
"""Ranges that one server-side function takes at most."""
FREE_CHUNK = 128
"""Ranges that one frees at most: where each lies in a run of its own it takes 10 µs, on which others wait."""
SETTLE_BATCH = 512
_TRIPLE = 12
_ID = 8
BUCKET, PLACE = 64, 6
"""Ids whose places one field of a segment's ranges has, and bytes of a place."""


@dataclass(frozen=True, slots=True)
class _Request:
    """Some ranges of one lease: what is asked for and which blocks it is for."""

    lease: str
    classes: list[tuple[SlotClass, int]]
    keys: bytes

    def args(self) -> Iterator[int]:
        for kind, count in self.classes:
            yield from (kind.slot_bytes, kind.slabs, kind.slots, count)


@dataclass(frozen=True, slots=True)
class _Refused:
    reason: str


def lease_names(plan: WritePlan, shard: ShardRef) -> list[str]:
    """The leases of a Start in one shard, one a CHUNK of its ranges."""
    ranges = sum(run.count for run in plan.places.runs.get(shard.shard, ())) if plan.places else 0
    return [_lease(plan, shard, number) for number in range(-(-ranges // CHUNK))]


def _lease(plan: WritePlan, shard: ShardRef, number: int) -> str:
    return f"{plan.session_id}|{shard.name}|{number}"


def _requests(plan: WritePlan, shard: ShardRef) -> list[_Request]:
    """The ranges of one shard's blocks in the order of placing, CHUNK by CHUNK."""
    owners: list[int] = []
    kinds: list[tuple[SlotClass, int]] = []
    for group in placing.by_shape(plan):
        for spec in group.shape.specs:
            owners += group.indexes
            kinds.append((pool_layout.slot_class(spec.size), len(group.indexes)))
    requests = []
    for number, at in enumerate(range(0, len(owners), CHUNK)):
        part = owners[at : at + CHUNK]
        keys = codec.pack_keys([plan.keys[index] for index in dict.fromkeys(part)])
        requests.append(_Request(_lease(plan, shard, number), _cut(kinds, at, at + len(part)), keys))
    return requests


def _cut(kinds: Sequence[tuple[SlotClass, int]], start: int, stop: int) -> list[tuple[SlotClass, int]]:
    """The classes of the ranges from `start` to before `stop`; neighbours of one class are one."""
    found: list[tuple[SlotClass, int]] = []
    at = 0
    for kind, count in kinds:
        overlap = min(stop, at + count) - max(start, at)
        at += count
        if overlap <= 0:
            continue
        if found and found[-1][0] == kind:
            overlap += found.pop()[1]
        found.append((kind, overlap))
    return found


def _runs(request: _Request, first_id: int, triples: bytes) -> list[RangeRun]:
    """What a reply says was taken. A triple never holds slots of two classes."""
    runs = []
    left = list(reversed(request.classes))
    kind, count = left.pop()
    for at in range(0, len(triples), _TRIPLE):
        slab, slot, taken = (int.from_bytes(triples[at + i : at + i + 4]) for i in (0, 4, 8))
        if not count:
            kind, count = left.pop()
        runs.append(RangeRun(first_id, slab * SLAB_BYTES + slot * kind.slot_bytes, kind.slot_bytes, taken))
        first_id += taken
        count -= taken
    return runs


class Pools:
    """Adapter of one process. `flush` settles leases in the background."""

    def __init__(self, index: RedisIndex) -> None:
        self._index = index
        self._free_slabs: dict[int, int] = {}
        """As the last answer about a segment said, by its number."""
        self._over: dict[int, list[str]] = defaultdict(list)

    async def allocate(self, plan: WritePlan, storage: StorageEntry) -> tuple[StorageEntry, PoolPlaces]:
        """Memory for all blocks of a plan in one segment, the emptiest first. Raises NoRoom."""
        shards = shards_of(plan.instance)
        parts = {0: plan}
        if len(shards) > 1:
            parts = {number: part for number, (_, part) in tickets.parts_of(plan).items()}
        try:
            requests = {number: _requests(part, shards[number]) for number, part in parts.items()}
        except ValueError as error:
            raise NoRoom(f"{storage.name}: a block's part {error}") from error
        reasons = []
        usable = [segment for segment in storage.segments if segment.is_available]
        for segment in sorted(usable, key=self._room, reverse=True):
            try:
                taken = await self._take(segment, plan, requests)
            except IndexUnavailable as error:  # what was taken all the same is given back with its lease
                taken = _Refused(f"cannot be asked for memory now ({error})")
            if isinstance(taken, PoolPlaces):
                return replace(storage, number=segment.number), taken
            reasons.append(f"{segment.node_id} {taken.reason}")
        if not reasons:
            reasons = ["none of its nodes is there"]
        raise NoRoom(f"{storage.name}: {', '.join(reasons)}")

    def _room(self, segment: PoolSegment) -> int:
        return self._free_slabs.get(segment.number, segment.size_bytes // SLAB_BYTES)

    async def claim(self, segment: PoolSegment) -> str:
        """Why this index may not give out a segment's memory; empty when it may."""
        return ""

    async def _take(
        self, segment: PoolSegment, plan: WritePlan, requests: Mapping[int, Sequence[_Request]]
    ) -> PoolPlaces | _Refused:
        """All of it or nothing."""
        if reason := await self.claim(segment):
            return _Refused(reason)
        flat = [(number, request) for number, each in requests.items() for request in each]
        slabs = segment.size_bytes // SLAB_BYTES
        base = keyspace.storage(segment.number)
        replies: list[list[Any]] = await asyncio.gather(
            *(
                self._index.function(
                    *("kvcm_pool_take", base, request.lease, plan.insert_by_ms, request.keys, slabs),
                    *request.args(),
                )
                for _, request in flat
            )
        )
        runs: dict[int, list[RangeRun]] = {number: [] for number in requests}
        leases: list[str] = []
        refused: list[Any] | None = None
        for (number, request), reply in zip(flat, replies, strict=True):
            if reply[0] == b"OK":
                self._free_slabs[segment.number] = reply[2]
                runs[number] += _runs(request, reply[1], reply[3])
                leases.append(request.lease)
            else:
                refused = reply
        if refused is None:
            return PoolPlaces(segment.number, segment.node_id, runs)
        await give_back(
            self._index, segment.number, [id for each in runs.values() for run in each for id in run.ids]
        )
        self._over[segment.number] += leases
        return _Refused(self._reason(segment, refused, plan))

    def _reason(self, segment: PoolSegment, reply: Sequence[Any], plan: WritePlan) -> str:
        match reply[0]:
            case b"FULL":
                self._free_slabs[segment.number] = reply[1]
                total = segment.size_bytes // SLAB_BYTES
                return (
                    f"has no memory left for {plan.size} bytes in {len(plan.keys)} blocks"
                    f" ({reply[1]} of {total} slabs are free)"
                )
            case b"GONE":
                return "has lost this memory"
            case b"HOME":
                return f"serves the index in a process of {reply[1].decode()}"
        return "was not asked in time"

    async def give_up(self, plan: WritePlan, shards: Sequence[ShardRef]) -> None:
        """Gives memory back of which no session knows: that of a Start that was refused."""
        if plan.places is None:
            return
        number = plan.places.number
        for shard in shards:
            ids = [id for run in plan.places.runs.get(shard.shard, ()) for id in run.ids]
            await give_back(self._index, number, ids)
            self._over[number] += lease_names(plan, shard)

    def settled(self, plan: WritePlan) -> None:
        """The plan's sessions are there: its leases may go."""
        if plan.places is not None:
            for shard in shards_of(plan.instance):
                self._over[plan.places.number] += lease_names(plan, shard)

    async def flush(self) -> None:
        """Settles what is over; what cannot be is settled by the sweep."""
        over, self._over = self._over, defaultdict(list)
        for number, leases in over.items():
            for at in range(0, len(leases), SETTLE_BATCH):
                part = leases[at : at + SETTLE_BATCH]
                await self._index.function("kvcm_pool_settle", keyspace.storage(number), *part)


async def give_back(index: RedisIndex, number: int, ids: Sequence[int]) -> int:
    """Ranges of a segment that nothing refers to; returns how many of them were taken."""
    freed = 0
    for at in range(0, len(ids), FREE_CHUNK):
        blob = b"".join(id.to_bytes(_ID) for id in ids[at : at + FREE_CHUNK])
        freed += await index.function("kvcm_pool_free", keyspace.storage(number), blob)
    return freed


def bucket_of(range_id: int) -> bytes:
    """The field of a segment's ranges that has this id (index/lua/9_pool.lua)."""
    return (range_id // BUCKET).to_bytes(6)


def taken_ids(bucket: bytes, value: bytes) -> set[int]:
    """The ids of a bucket that are taken."""
    first = int.from_bytes(bucket) * BUCKET + value[0]
    places = range(1, len(value), PLACE)
    return {first + index for index, at in enumerate(places) if any(value[at : at + PLACE])}


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it lies in Redis."""

    name: bytes
    session_id: str
    instance_number: int
    shard: int
    first_id: int
    count: int
    keys: bytes

    @classmethod
    def unpack(cls, name: bytes, raw: bytes) -> Lease:
        session_id, shard_name, _ = name.decode().split("|")
        instance, _, shard = shard_name.partition(":")
        first, count = int.from_bytes(raw[:8]), int.from_bytes(raw[8:10])
        return cls(name, session_id, int(instance), int(shard), first, count, raw[10:])

    @property
    def ids(self) -> range:
        return range(self.first_id, self.first_id + self.count)


async def sweep_leases(index: RedisIndex, number: int, batch: int) -> int:
    """Ends leases that nobody settled: memory of a Start whose session never came to be is given back.

    Returns their number.
    """
    base = keyspace.storage(number)
    latest = index.now_ms() - RESERVATION_MARGIN_MS
    names = await index.connection.call(
        "ZRANGEBYSCORE", keyspace.pool_lease_deadlines(base), "-inf", latest, "LIMIT", 0, batch
    )
    if not names:
        return 0
    values = await index.connection.call("HMGET", keyspace.pool_leases(base), *names)
    for name, raw in zip(names, values, strict=True):
        if raw is not None:
            lease = Lease.unpack(name, raw)
            if not await _is_referred_to(index, number, lease):
                await give_back(index, number, lease.ids)
        await index.function("kvcm_pool_settle", base, name)
    return len(names)


async def _is_referred_to(index: RedisIndex, number: int, lease: Lease) -> bool:
    """Whether the Start's session came to be in the lease's shard: then all its memory is on record.

    A location moves from the session to the record, from there to the pending deletions and perhaps
    to the orphans, never back; so one look at each, in this order, misses none.
    """
    call, base = index.connection.call, keyspace.instance(lease.instance_number, lease.shard)
    if await call("HEXISTS", keyspace.sessions(base), lease.session_id):
        return True
    keys = [lease.keys[at : at + 8] for at in range(0, len(lease.keys), 8)]
    location_id = lease.session_id[-8:].encode()
    for record in await call("HMGET", keyspace.blocks(base), *keys):
        if record and any(one[:8] == location_id for one in codec.run_names(record)):
            return True
    members = [location_id + key for key in keys]
    if any(await call("HMGET", keyspace.pending(base), *members)):
        return True
    orphans = [base.encode() + member for member in members]
    return any(await call("HMGET", keyspace.orphans(keyspace.storage(number)), *orphans))


async def drop_lost(index: RedisIndex, numbers: Sequence[int]) -> int:
    """Forgets what was taken of segments that are lost; returns how many were not forgotten before."""
    if not numbers:
        return 0
    known = await index.connection.pipeline(
        [("HMGET", keyspace.storage(number), "p:slabs", "p:gone") for number in numbers]
    )
    dropped = [number for number, (slabs, gone) in zip(numbers, known, strict=True) if slabs and not gone]
    for number in dropped:
        await index.function("kvcm_pool_drop", keyspace.storage(number))
    return len(dropped)
