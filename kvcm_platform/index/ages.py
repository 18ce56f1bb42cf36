"""The runs of shards by their age, coldest first, with their blocks on one storage: a migration's way."""

from __future__ import annotations

import heapq
import json
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvcm_platform.core.reclaim.order import TICK
from kvcm_platform.core.registry import InstanceEntry

from . import codec, keyspace
from .codec import StoredLocation
from .shards import ShardRef, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

PAGE = 256
"""Runs a look."""
CURSOR_MS = 600_000
"""After so long a shard is gone through from its coldest run again: what failed is tried once more."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a shard and its place in the recency order."""

    instance: InstanceEntry
    shard: ShardRef
    name: bytes
    score: int

    @property
    def tick_ms(self) -> int:
        """When it was last used."""
        return self.score // TICK

    @property
    def depth(self) -> int:
        return TICK - 1 - self.score % TICK


@dataclass(frozen=True, slots=True)
class HeldBlock:
    """One block of a run: where the run has it (`location`), and all of its record."""

    run: Run
    key: int
    depth: int
    record: bytes
    location: StoredLocation


@dataclass(frozen=True, slots=True)
class HeldRun:
    run: Run
    blocks: tuple[HeldBlock, ...]

    @property
    def size(self) -> int:
        return sum(block.location.size for block in self.blocks)


@dataclass(slots=True)
class Position:
    """How far a shard was gone through: behind this run. `since_ms` is when that began."""

    score: int = -1
    name: bytes = b""
    since_ms: int = 0

    def pack(self) -> str:
        return json.dumps([self.score, self.name.hex(), self.since_ms])

    @classmethod
    def unpack(cls, raw: bytes) -> Position:
        score, name, since_ms = json.loads(raw)
        return cls(score, bytes.fromhex(name), since_ms)


async def page(
    index: RedisIndex, instance: InstanceEntry, shard: ShardRef, after: Position, size: int = PAGE
) -> list[Run]:
    """The next runs behind a position; of those with an equal score some may come again."""
    name = keyspace.recency(shard.base)
    call = index.connection.call
    rank = None
    if after.name:
        # The run that was seen last may have moved since.
        score = await call("ZSCORE", name, after.name)
        if score is not None and int(float(score)) == after.score:
            rank = await call("ZRANK", name, after.name)
        if rank is None:
            rank = int(await call("ZCOUNT", name, "-inf", f"({after.score}")) - 1
    start = 0 if rank is None else rank + 1
    flat = await call("ZRANGE", name, start, start + size - 1, "WITHSCORES")
    return [
        Run(instance, shard, run, int(float(score))) for run, score in zip(flat[::2], flat[1::2], strict=True)
    ]


async def held(index: RedisIndex, runs: Sequence[Run], numbers: Collection[int]) -> list[HeldRun]:
    """The runs of one shard whose blocks lie on these storage numbers, with their SERVING blocks."""
    if not runs:
        return []
    shard, call = runs[0].shard, index.connection.call
    members = await call("HMGET", keyspace.runs(shard.base), *(run.name for run in runs))
    known = [(run, blob) for run, blob in zip(runs, members, strict=True) if blob]
    if not known:
        return []
    firsts = await call("HMGET", keyspace.blocks(shard.base), *(blob[:8] for _, blob in known))
    here = [
        (run, blob)
        for (run, blob), record in zip(known, firsts, strict=True)
        if record is not None and _number_of(record, run.name) in numbers
    ]
    if not here:
        return []
    fields = [blob[at : at + 8] for _, blob in here for at in range(0, len(blob), 8)]
    records = iter(await _records(index, shard, fields))
    return [_held_run(run, blob, records) for run, blob in here]


async def _records(index: RedisIndex, shard: ShardRef, fields: Sequence[bytes]) -> list[bytes | None]:
    name, step = keyspace.blocks(shard.base), 512
    parts = await index.connection.pipeline(
        [("HMGET", name, *fields[at : at + step]) for at in range(0, len(fields), step)]
    )
    return [record for part in parts for record in part]


async def refreshed(index: RedisIndex, blocks: Iterable[HeldBlock]) -> list[HeldBlock]:
    """The same blocks as they are now; those whose location is not served any more are left out."""
    by_shard: dict[ShardRef, list[HeldBlock]] = {}
    for block in blocks:
        by_shard.setdefault(block.run.shard, []).append(block)
    found = []
    for shard, part in by_shard.items():
        records = await _records(index, shard, [codec.pack_keys([block.key]) for block in part])
        for block, record in zip(part, records, strict=True):
            for location in codec.locations(record or b""):
                is_same = location.location_id == block.location.location_id
                if record is not None and is_same and location.status == codec.SERVING:
                    found.append(replace(block, record=record, location=location))
    return found


def _number_of(record: bytes, run: bytes) -> int | None:
    """The storage number of the location that belongs to a run, whatever its status."""
    at = 0
    while at < len(record):
        if record[at + 5 : at + 15] == run:
            return int.from_bytes(record[at + 3 : at + 5])
        at += codec.HEADER + int.from_bytes(record[at + 33 : at + 36])
    return None


def _held_run(run: Run, blob: bytes, records: Iterable[bytes | None]) -> HeldRun:
    blocks = []
    for position, (key, record) in enumerate(zip(codec.unpack_keys(blob), records, strict=False)):
        for location in codec.locations(record or b""):
            if record is not None and location.run == run.name and location.status == codec.SERVING:
                blocks.append(HeldBlock(run, key, run.depth + position, record, location))
    return HeldRun(run, tuple(blocks))


@dataclass(slots=True)
class _Shard:
    """Where the walk is in one shard: runs that were read and not given out yet."""

    instance: InstanceEntry
    ref: ShardRef
    read: Position
    waiting: list[HeldRun] = field(default_factory=list)
    is_over: bool = False
    given: bytes = b""
    dealt_with: bytes = b""
    """The last runs that were given out, and marked."""

    @property
    def is_clear(self) -> bool:
        """Whether nothing that was given out is still to be dealt with."""
        return self.given == self.dealt_with


class AgeWalk:
    """Goes through the runs of several shards, the coldest of all first, within bounds.

    `looked_at` counts runs that were read, `is_over` says that none is left. Positions are noted with
    `keep`, for the next round; `mark` them when the run's blocks were dealt with.
    """

    def __init__(
        self,
        index: RedisIndex,
        instances: Iterable[InstanceEntry],
        numbers: Collection[int],
        name: str = "",
        *,
        is_once: bool = False,
    ) -> None:
        """`is_once`: shards are gone through one time, however long that takes."""
        self._index = index
        self._is_once = is_once
        self._numbers = frozenset(numbers)
        self._name = name
        self._shards = [_Shard(entry, shard, Position()) for entry in instances for shard in shards_of(entry)]
        self._done: dict[str, Position] = {}
        self.looked_at = 0

    @property
    def is_over(self) -> bool:
        return all(shard.is_over and not shard.waiting for shard in self._shards)

    async def resume(self) -> None:
        """Goes on where an earlier walk of this name was, if that is not long ago."""
        if not self._name or not self._shards:
            return
        fields = [self._field(shard.ref) for shard in self._shards]
        noted = await self._index.connection.call("HMGET", keyspace.COPY_CURSORS, *fields)
        now = self._index.now_ms()
        for shard, raw in zip(self._shards, noted, strict=True):
            position = Position.unpack(raw) if raw else Position(since_ms=now)
            if now - position.since_ms > CURSOR_MS and not self._is_once:
                position = Position(since_ms=now)
            shard.read = position

    async def runs(self, at_most: int) -> AsyncIterator[HeldRun]:
        """Runs on the storage, coldest first, until so many runs of any storage were looked at."""
        heap: list[tuple[int, int]] = []
        for number, shard in enumerate(self._shards):
            await self._fill(shard, at_most)
            if shard.waiting:
                heapq.heappush(heap, (shard.waiting[0].run.score, number))
        while heap:
            _, number = heapq.heappop(heap)
            shard = self._shards[number]
            first = shard.waiting.pop(0)
            shard.given = first.run.name
            yield first
            if not shard.waiting:
                await self._fill(shard, at_most)
            if shard.waiting:
                heapq.heappush(heap, (shard.waiting[0].run.score, number))

    async def _fill(self, shard: _Shard, at_most: int) -> None:
        while not shard.waiting and not shard.is_over and self.looked_at < at_most:
            found = await page(self._index, shard.instance, shard.ref, shard.read)
            self.looked_at += len(found)
            shard.is_over = len(found) < PAGE
            if not found:
                return
            shard.waiting = await held(self._index, found, self._numbers)
            last = found[-1]
            shard.read = Position(last.score, last.name, shard.read.since_ms)
            if not shard.waiting and shard.is_clear:
                self._done[self._field(shard.ref)] = shard.read

    def mark(self, run: Run) -> None:
        """Everything of its shard up to this run is dealt with."""
        shard = next(one for one in self._shards if one.ref == run.shard)
        shard.dealt_with = run.name
        self._done[self._field(run.shard)] = Position(run.score, run.name, shard.read.since_ms)

    async def keep(self) -> None:
        """Notes how far the shards were dealt with; one that is through begins anew next time."""
        if not self._name:
            return
        call = self._index.connection.call
        through = [self._field(s.ref) for s in self._shards if s.is_over and not s.waiting and s.is_clear]
        if through and not self._is_once:
            for name in through:
                self._done.pop(name, None)
            await call("HDEL", keyspace.COPY_CURSORS, *through)
        if self._done:
            flat = [part for name, position in self._done.items() for part in (name, position.pack())]
            await call("HSET", keyspace.COPY_CURSORS, *flat)

    def _field(self, shard: ShardRef) -> str:
        return f"{self._name}|{shard.name}"
