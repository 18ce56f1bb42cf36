"""The search cache of a metadata process: serving blocks as prefix chunks (DESIGN 4.5).

Block keys chain over their prefix, so prompts that share a prefix share its chunks (chunks.py),
and a hit copies 64 locations at once.

Correctness rests on the event streams of the shards. Each drop names the runs it took blocks from, and
takes the chunks with blocks of those runs out of the cache. A chunk is handed out only while the
stream position was confirmed at most MAX_AGE ago; otherwise the position is confirmed first. A
gap in the epochs, a trimmed stream or a new generation empties the instance's part of the cache.
Only serving blocks are cached: what is not in the cache is asked in Redis, so a block that
another process finished is seen by the next call.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.placement import Serving
from kvcm_platform.core.ports import Prefix, Record
from kvcm_platform.core.queries import match_reads
from kvcm_platform.core.registry import InstanceEntry

from . import codec
from .chunks import CacheCounters, Chunk, InstanceChunks, StreamPosition
from .connection import Connection, each_to_its_end
from .following import StreamFollower
from .records import is_single, runs, scan, served
from .redis_index import RedisIndex, guarded
from .shards import shards_of

CHUNK = 64
"""Blocks a chunk."""
KEY_BYTES = 8
CHUNK_KEY_BYTES = CHUNK * KEY_BYTES
CHOICES = 4
"""Different choices of locations that a chunk of blocks with several locations keeps."""
CONFIRM_AFTER = 0.12
"""Seconds after which a call confirms the stream position before it uses the cache."""
MAX_AGE = 0.2
"""A removed location is handed out no longer than this."""
ACTIVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Question:
    """What a call asks of one instance; `raw` are its keys as int64 of this machine."""

    instance: InstanceEntry
    keys: Sequence[int]
    raw: bytes
    serving: Serving
    depth: int
    """Of the first key in its prompt."""
    tick: int


class SearchCache:
    """Prefix matches of one process. `refresh_active` is called every 50 ms by the background loop."""

    def __init__(self, index: RedisIndex, max_bytes: int, *, is_strict: bool = False) -> None:
        self._index = index
        self._connection: Connection = index.connection
        self._max_bytes = max_bytes
        self._is_strict = is_strict
        self._instances: OrderedDict[int, InstanceChunks] = OrderedDict()
        index.on_removal = self.distrust
        self.counters = CacheCounters()
        self._streams = StreamFollower(self._connection)

    @guarded
    async def prefix(
        self,
        instance: InstanceEntry,
        keys: Sequence[int],
        serving: Serving,
        depth: int,
        tick: int,
        capacity_bytes: int,
    ) -> Prefix:
        """The longest served prefix of `keys`, the first of which is at `depth` of its prompt.

        `capacity_bytes` caps the instance's share; 0 turns the cache off for it.
        """
        if not self._max_bytes or not capacity_bytes or len(keys) == 0:
            return await self._index.prefix(instance, keys, serving, depth, tick)
        cache = self._part(instance, capacity_bytes, serving)
        raw = np.asarray(keys, dtype=np.int64).tobytes()
        asked = Question(instance, keys, raw, serving, depth, tick)
        begun = time.monotonic()
        # A later Start may add specs to a block that is cached already: its reader must see them at once.
        is_strict = self._is_strict or bool(instance.location_spec_groups)
        for _ in range(3):
            await self._streams.confirm(cache, begun if is_strict else time.monotonic() - CONFIRM_AFTER)
            match, used = await self._match(cache, asked)
            # Reading the rest took time: the chunks used before it must still be right now.
            await self._streams.confirm(cache, time.monotonic() - MAX_AGE)
            if all(cache.chunks.get(chunk.name) is chunk for chunk in used):
                return match
        return await self._index.prefix(instance, keys, serving, depth, tick)

    def cached(
        self,
        instance: InstanceEntry,
        raw: bytes,
        serving: Serving,
        depth: int,
        tick: int,
        capacity_bytes: int,
    ) -> Prefix | None:
        """What `prefix` would give, where that needs no I/O: every chunk is here, the position is confirmed.

        `raw` holds the keys as int64 of this machine. None leaves no trace: `prefix` has it all to do.
        """
        if not self._max_bytes or not capacity_bytes or self._is_strict or instance.location_spec_groups:
            return None
        cache = self._part(instance, capacity_bytes, serving)
        if cache.confirmed_at < max(cache.used_at - CONFIRM_AFTER, cache.distrusted_at):
            return None
        total = len(raw) // KEY_BYTES
        used = self._chunks(cache, raw)
        if len(used) * CHUNK < total:
            return None
        return Prefix(total, self._use(cache, used, depth, tick))

    def _chunks(self, cache: InstanceChunks, raw: bytes) -> list[Chunk]:
        """The chunks that the keys begin with."""
        used: list[Chunk] = []
        find = cache.chunks.get
        for at in range(0, len(raw), CHUNK_KEY_BYTES):
            chunk = find(raw[at : at + CHUNK_KEY_BYTES])
            if chunk is None:
                break
            used.append(chunk)
        return used

    def _use(self, cache: InstanceChunks, used: list[Chunk], depth: int, tick: int) -> list[bytes]:
        """The chunks' answers; notes their use."""
        pieces: list[bytes] = []
        to_end, touch, number = cache.chunks.move_to_end, self._index.recency.touch_runs, cache.number
        for chunk in used:
            wires = chunk.wires
            pieces.append(wires[0] if len(wires) == 1 else random.choice(wires))  # noqa: S311
            to_end(chunk.name)
            touch(number, chunk.runs, depth, tick)
            depth += CHUNK
        self.counters.hit_chunks += len(used)
        return pieces

    async def _match(self, cache: InstanceChunks, asked: Question) -> tuple[Prefix, list[Chunk]]:
        used = self._chunks(cache, asked.raw)
        pieces = self._use(cache, used, asked.depth, asked.tick)
        at = min(len(used) * CHUNK, len(asked.keys))
        if at < len(asked.keys):
            at = await self._read_on(cache, asked, at, pieces)
        return Prefix(at, pieces), used

    async def _read_on(self, cache: InstanceChunks, asked: Question, at: int, pieces: list[bytes]) -> int:
        """Goes on in Redis from block `at`, keeping whole chunks; returns where the prefix ends."""
        keys, raw, serving, tick = asked.keys, asked.raw, asked.serving, asked.tick
        for begin, end in match_reads(len(keys), at):
            mark = cache.reading()
            records = await self._index.records(asked.instance, keys[begin:end])
            hits = 0
            for start in range(0, len(records), CHUNK):
                part = records[start : start + CHUNK]
                first = begin + start
                name = raw[first * KEY_BYTES : (first + len(part)) * KEY_BYTES]
                plain = scan(part, serving)
                if plain is not None:
                    chunk, count = Chunk(name, (plain.wire,), plain.storages, plain.runs), len(part)
                    self._index.recency.touch_runs(cache.number, plain.runs, asked.depth + first, tick)
                else:
                    chunk, count = self._look_at(name, part, asked.instance, serving)
                    self._index.recency.touch(asked.instance, part[:count], asked.depth + first, tick)
                hits += count
                pieces.append(chunk.wires[0])
                if count < len(part):
                    break
                self.counters.miss_chunks += 1
                self._keep(cache, chunk, mark, serving)
            at += hits
            if hits < len(records):
                break
        return at

    def _look_at(
        self, name: bytes, part: Sequence[Record], instance: InstanceEntry, serving: Serving
    ) -> tuple[Chunk, int]:
        """The chunk of the hits that a part begins with, and how many they are.

        It holds answers to choose from where blocks have several locations, so that all are used.
        """
        wires: list[bytes] = []
        for record in part:
            wire = served(record, instance, serving)
            if wire is None:
                break
            wires.append(wire)
        found = [record for record in part[: len(wires)] if record is not None]
        answers = [b"".join(wires)]
        if not all(map(is_single, found)):
            for _ in range(CHOICES - 1):
                answers.append(b"".join(served(record, instance, serving) or b"" for record in found))
        storages = frozenset(number for record in found for number in codec.storage_numbers(record))
        return Chunk(name, tuple(answers), storages, runs(found, 0)), len(wires)

    def _keep(self, cache: InstanceChunks, chunk: Chunk, mark: int, serving: Serving) -> None:
        """Keeps a chunk, unless a change of the served storages or a new generation overtook its reading."""
        if cache.serving is not serving or cache.generation != self._connection.generation_of(cache.base):
            return
        cache.keep(chunk, mark)
        while self.counters.bytes > self._max_bytes:
            # The instance that was not used for longest gives first, its oldest chunk.
            oldest = next((part for part in self._instances.values() if part.chunks), None)
            if oldest is None:
                return
            oldest.evict()

    def _part(self, instance: InstanceEntry, capacity_bytes: int, serving: Serving) -> InstanceChunks:
        cache = self._instances.get(instance.number)
        if cache is None:
            streams = [StreamPosition(shard.base) for shard in shards_of(instance)]
            cache = InstanceChunks(instance.number, streams, capacity_bytes, self.counters)
            self._instances[instance.number] = cache
            if len(self._instances) > 100_000:
                self._instances.popitem(last=False)[1].reset()
        else:
            self._instances.move_to_end(instance.number)
        cache.max_bytes = capacity_bytes
        if cache.generation != self._connection.generation_of(cache.base):
            cache.begin_life(self._connection.generation_of(cache.base))
        if cache.serving is not serving:
            cache.serve_only(serving)
        cache.used_at = time.monotonic()
        return cache

    def distrust(self, instance: InstanceEntry) -> None:
        """This process removed blocks of the instance: its next match must know."""
        cache = self._instances.get(instance.number)
        if cache is not None:
            cache.distrusted_at = time.monotonic()

    async def refresh_active(self) -> None:
        """Confirms all instances in use, in one pipeline a server; none waits for one that is away."""
        now = time.monotonic()
        active = [part for part in self._instances.values() if now - part.used_at < ACTIVE_SECONDS]
        by_server: dict[Connection, list[InstanceChunks]] = {}
        for part in active:
            by_server.setdefault(self._connection.server_of(part.base), []).append(part)
        await each_to_its_end([self._streams.refresh(parts) for parts in by_server.values()])
