"""Prefix chunks of one instance in the memory of a metadata process (search_cache.py).

A chunk is up to 64 consecutive blocks of one prefix: their keys are its name, their encoded
locations together its value. What was dropped lately is remembered, so that nothing read before
a drop is kept after it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from kvcm_platform.core.placement import Serving

NOTHING = Serving(frozenset(), {}, is_readable=False)
RECENT_DROPS = 4096
OVERHEAD = 400
"""Bytes of bookkeeping a chunk, beside its keys, value and runs."""
RUN_NAME = 10


@dataclass(slots=True, eq=False)
class Chunk:
    """Blocks that were all serving when they were read."""

    name: bytes
    wires: tuple[bytes, ...]
    """The blocks' locations as wire bytes; several choices where blocks have several locations."""
    storages: frozenset[int]
    runs: dict[bytes, int]
    """Run name -> depth of its first block, counted from the chunk's start."""

    @property
    def size(self) -> int:
        return len(self.name) + sum(map(len, self.wires)) + len(self.runs) * 150 + OVERHEAD


@dataclass(slots=True)
class CacheCounters:
    """Since the process began. `bytes` is what is held now."""

    hit_chunks: int = 0
    miss_chunks: int = 0
    invalidated_chunks: int = 0
    evicted_chunks: int = 0
    resets: int = 0
    bytes: int = 0


@dataclass(slots=True)
class StreamPosition:
    """How far the event stream of one shard was followed; `epoch` is None until that is known."""

    base: str
    epoch: int | None = None
    entry: bytes = b"-"


@dataclass(slots=True, eq=False)
class InstanceChunks:
    """The part of one instance, with the positions in the event streams of its shards."""

    number: int
    streams: list[StreamPosition]
    max_bytes: int
    counters: CacheCounters
    chunks: OrderedDict[bytes, Chunk] = field(default_factory=OrderedDict)
    by_run: dict[bytes, set[bytes]] = field(default_factory=dict)
    size: int = 0
    confirmed_at: float = 0.0
    """When all positions were last known to be current (time.monotonic)."""
    distrusted_at: float = 0.0
    """When this process itself removed blocks: an older confirmation does not count."""
    used_at: float = 0.0
    generation: int = 0
    serving: Serving = NOTHING
    """What was served when the chunks were chosen."""
    drop_count: int = 0
    recent_drops: deque[tuple[int, frozenset[bytes]]] = field(
        default_factory=lambda: deque(maxlen=RECENT_DROPS)
    )
    refreshing: asyncio.Task[None] | None = None

    @property
    def base(self) -> str:
        """A key that lies where all shards of the instance do."""
        return self.streams[0].base

    def reading(self) -> int:
        """A mark to be given to `keep` with what is read from now on.

        Without known positions nothing may be kept: a drop could go unseen.
        """
        is_known = all(stream.epoch is not None for stream in self.streams)
        return self.drop_count if is_known else -RECENT_DROPS

    def keep(self, chunk: Chunk, mark: int) -> bool:
        """Puts a chunk in, unless one of its runs was dropped since `mark`."""
        name, runs = chunk.name, chunk.runs
        missed = self.drop_count - mark
        if missed:
            if missed > len(self.recent_drops):
                return False
            if any(not runs.keys().isdisjoint(gone) for n, gone in self.recent_drops if n > mark):
                return False
        if name in self.chunks:
            return False
        self.chunks[name] = chunk
        for run in runs:
            self.by_run.setdefault(run, set()).add(name)
        self.size += chunk.size
        self.counters.bytes += chunk.size
        while self.size > self.max_bytes and self.chunks:
            self.evict()
        return True

    def evict(self) -> None:
        """The chunk that was not used for longest goes."""
        self._forget(next(iter(self.chunks)))
        self.counters.evicted_chunks += 1

    def drop(self, packed_runs: bytes) -> None:
        """Blocks of these runs are gone: so are all chunks with blocks of them."""
        names = range(0, len(packed_runs), RUN_NAME)
        runs = frozenset(packed_runs[at : at + RUN_NAME] for at in names)
        self.drop_count += 1
        self.recent_drops.append((self.drop_count, runs))
        for run in runs:
            for name in self.by_run.pop(run, ()):
                self.invalidate(name)

    def serve_only(self, serving: Serving) -> None:
        """Chunks with blocks on storages that are not served any more go, and choices by other weights."""
        gone = self.serving.numbers - serving.numbers
        is_reweighed = self.serving.weights != serving.weights
        for chunk in list(self.chunks.values()):
            if not gone.isdisjoint(chunk.storages) or (is_reweighed and len(chunk.wires) > 1):
                self.invalidate(chunk.name)
        self.serving = serving

    def invalidate(self, name: bytes) -> None:
        if name in self.chunks:
            self._forget(name)
            self.counters.invalidated_chunks += 1

    def reset(self) -> None:
        """Empties it; the stream positions are learned anew."""
        self.counters.bytes -= self.size
        self.counters.resets += bool(self.chunks)
        self.chunks.clear()
        self.by_run.clear()
        self.recent_drops.clear()
        self.drop_count += 1  # whatever is being read now must not be kept
        self.size, self.confirmed_at = 0, 0.0
        for stream in self.streams:
            stream.epoch, stream.entry = None, b"-"

    def begin_life(self, generation: int) -> None:
        """Empties it for another life of the server."""
        self.reset()
        self.generation = generation

    def _forget(self, name: bytes) -> None:
        chunk = self.chunks.pop(name)
        for run in chunk.runs:
            names = self.by_run.get(run)
            if names is not None:
                names.discard(name)
                if not names:
                    del self.by_run[run]
        self.size -= chunk.size
        self.counters.bytes -= chunk.size
