"""The search cache in front of a MetaIndex: records by key, bounded in bytes, least recently used first out.

What the parameters of `CachePolicy` mean here:
- `capacity_mb`: bytes of keys, records and bookkeeping; 0 = no cache.
- `type`: "lru" in any case, the only one.
- `shard_bits`: 2^n parts, each with its share of the capacity. A write keeps what is being read
  meanwhile out of its own part alone, so more parts lose fewer fills; -1 = 6 bits, the default.
- `high_pri_pool_ratio`: the share kept for records that were hit at least once. What is read for
  the first time can push out only others of its kind, so a scan does not empty the cache. 0 = none.

The cache knows the writes of its own process. Another process's write is seen when the record
leaves the cache, hence `factory` puts none in front of a Redis that others write to as well.
`read_modify_write`, `scan`, `random_sample` and figures always ask the index itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kvcm_platform.core.errors import invalid
from kvcm_platform.core.registry import CachePolicy

from .batches import mixed
from .interface import IndexUsage, MetaIndex, Modifier, ModifyReport, Outcome, Page

OVERHEAD = 150
"""Bytes of bookkeeping a record."""
DEFAULT_SHARD_BITS = 6
MOST_SHARD_BITS = 16
_SHIFT = 20


@dataclass(slots=True)
class RecordCacheCounters:
    hits: int = 0
    misses: int = 0
    invalidated: int = 0
    evicted: int = 0
    bytes: int = 0


class _Part:
    """Two pools, oldest first. `writers` and `writes` tell readers whether a write came in between."""

    __slots__ = (
        "_bytes",
        "_capacity",
        "_counters",
        "_high",
        "_high_bytes",
        "_high_capacity",
        "_low",
        "writers",
        "writes",
    )

    def __init__(self, capacity: int, high_capacity: int, counters: RecordCacheCounters) -> None:
        self._low: OrderedDict[int, bytes | None] = OrderedDict()
        self._high: OrderedDict[int, bytes | None] = OrderedDict()
        self._capacity, self._high_capacity = capacity, high_capacity
        self._bytes = self._high_bytes = 0
        self._counters = counters
        self.writers = self.writes = 0

    def find(self, key: int) -> tuple[bool, bytes | None]:
        """Whether it is known, and its record."""
        if key in self._high:
            self._high.move_to_end(key)
            return True, self._high[key]
        if key not in self._low:
            return False, None
        record = self._low[key]
        if not self._high_capacity:
            self._low.move_to_end(key)
            return True, record
        del self._low[key]
        self._high[key] = record
        self._high_bytes += _size(record)
        while self._high_bytes > self._high_capacity:
            oldest, demoted = self._high.popitem(last=False)
            self._high_bytes -= _size(demoted)
            self._low[oldest] = demoted
        return True, record

    def keep(self, key: int, record: bytes | None) -> None:
        if key in self._low or key in self._high:
            return
        self._low[key] = record
        self._note(_size(record))
        while self._bytes > self._capacity:
            pool = self._low or self._high
            _, gone = pool.popitem(last=False)
            if pool is self._high:
                self._high_bytes -= _size(gone)
            self._note(-_size(gone))
            self._counters.evicted += 1

    def forget(self, key: int) -> None:
        if key in self._low:
            gone = self._low.pop(key)
        elif key in self._high:
            gone = self._high.pop(key)
            self._high_bytes -= _size(gone)
        else:
            return
        self._note(-_size(gone))
        self._counters.invalidated += 1

    def _note(self, size: int) -> None:
        self._bytes += size
        self._counters.bytes += size


class CachedMetaIndex:
    """A MetaIndex that remembers what it read, that a key has no record included."""

    def __init__(self, inner: MetaIndex, policy: CachePolicy) -> None:
        """`policy` as `check_meta_indexer` accepts it. Raises INVALID_ARGUMENT for too many shards."""
        bits = DEFAULT_SHARD_BITS if policy.shard_bits < 0 else policy.shard_bits
        if bits > MOST_SHARD_BITS:
            raise invalid("meta_indexer.cache_policy.shard_bits", f"{bits} is more than {MOST_SHARD_BITS}")
        self._inner = inner
        self.counters = RecordCacheCounters()
        share = (policy.capacity_mb << 20) >> bits
        high = int(share * policy.high_pri_pool_ratio)
        self._parts = [_Part(share, high, self.counters) for _ in range(1 << bits)]

    def _part(self, key: int) -> _Part:
        return self._parts[(mixed(key) >> _SHIFT) % len(self._parts)]

    async def get(self, keys: Sequence[int]) -> list[bytes | None]:
        records: list[bytes | None] = [None] * len(keys)
        missing: dict[int, list[int]] = {}
        for position, key in enumerate(keys):
            is_known, records[position] = self._part(key).find(key)
            if not is_known:
                missing.setdefault(key, []).append(position)
        self.counters.hits += len(keys) - sum(map(len, missing.values()))
        if not missing:
            return records
        self.counters.misses += len(missing)
        begun = {key: self._part(key).writes for key in missing}
        for key, record in zip(missing, await self._inner.get(list(missing)), strict=True):
            for position in missing[key]:
                records[position] = record
            part = self._part(key)
            if not part.writers and part.writes == begun[key]:
                part.keep(key, record)
        return records

    @asynccontextmanager
    async def _writing(self, keys: Sequence[int]) -> AsyncIterator[None]:
        """Forgets the keys; nothing of their parts that is being read before the end of it is kept."""
        parts = list({id(part): part for part in map(self._part, keys)}.values())
        for part in parts:
            part.writers += 1
            part.writes += 1
        for key in keys:
            self._part(key).forget(key)
        try:
            yield
        finally:
            for part in parts:
                part.writers -= 1
                part.writes += 1

    async def put(self, records: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        async with self._writing([key for key, _ in records]):
            return await self._inner.put(records)

    async def update(self, records: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        async with self._writing([key for key, _ in records]):
            return await self._inner.update(records)

    async def delete(self, keys: Sequence[int]) -> list[Outcome]:
        async with self._writing(keys):
            return await self._inner.delete(keys)

    async def read_modify_write(self, keys: Sequence[int], modifier: Modifier) -> ModifyReport:
        async with self._writing(keys):
            return await self._inner.read_modify_write(keys, modifier)

    async def scan(self, cursor: bytes, limit: int) -> Page:
        return await self._inner.scan(cursor, limit)

    async def random_sample(self, n: int) -> list[int]:
        return await self._inner.random_sample(n)

    async def count(self) -> int:
        return await self._inner.count()

    async def usage(self) -> IndexUsage:
        return await self._inner.usage()

    async def close(self) -> None:
        await self._inner.close()


def _size(record: bytes | None) -> int:
    return OVERHEAD + (0 if record is None else len(record))
