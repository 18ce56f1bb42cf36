"""Lock shards of keys, and batches aligned to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

_MASK = (1 << 64) - 1


def mixed(key: int) -> int:
    """A key's bits, spread: neighbours are far apart, so any bits of it choose evenly (splitmix64)."""
    bits = (key & _MASK) + 0x9E3779B97F4A7C15 & _MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31


@dataclass(frozen=True, slots=True)
class Batch:
    """Positions of a call's keys, in the call's order, and the lock shards that hold them, in order."""

    shards: tuple[int, ...]
    positions: tuple[int, ...]


def batches(keys: Sequence[int], shard_count: int, batch_size: int) -> list[Batch]:
    """Cuts a call along lock shards: a batch takes whole shards until it has `batch_size` keys.

    So a key's duplicates stay together, and small batches are not starved by taking many locks for
    few keys each. 0 = one shard a batch.
    """
    by_shard: dict[int, list[int]] = {}
    for position, key in enumerate(keys):
        by_shard.setdefault(mixed(key) & shard_count - 1, []).append(position)
    result: list[Batch] = []
    shards: list[int] = []
    positions: list[int] = []
    for shard in sorted(by_shard):
        shards.append(shard)
        positions += by_shard[shard]
        if len(positions) >= batch_size:
            result.append(Batch(tuple(shards), tuple(sorted(positions))))
            shards, positions = [], []
    if positions:
        result.append(Batch(tuple(shards), tuple(sorted(positions))))
    return result


class ShardLocks:
    """One lock a shard of this process. Taken in shard order, so that no two batches wait for each other."""

    def __init__(self, count: int) -> None:
        self._locks: dict[int, asyncio.Lock] = {}
        self.count = count

    @asynccontextmanager
    async def held(self, shards: Sequence[int]) -> AsyncIterator[None]:
        taken: list[asyncio.Lock] = []
        try:
            for shard in sorted(shards):
                lock = self._locks.setdefault(shard, asyncio.Lock())
                await lock.acquire()
                taken.append(lock)
            yield
        finally:
            for lock in reversed(taken):
                lock.release()
