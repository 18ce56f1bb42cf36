"""The search cache in front of a MetaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from kvcm_platform.core.registry import CachePolicy
from kvcm_platform.index.meta_index.cache import CachedMetaIndex
from kvcm_platform.index.meta_index.factory import open_meta_index
from kvcm_platform.index.meta_index.interface import MetaIndex, Put
from tests.support.meta_index import PLAIN

# The search cache


def cache_over(inner: MetaIndex, **changes: object) -> CachedMetaIndex:
    return CachedMetaIndex(inner, replace(CachePolicy(capacity_mb=1, shard_bits=0), **changes))


@pytest.fixture
async def plain() -> AsyncIterator[MetaIndex]:
    index = await open_meta_index(replace(PLAIN, storage_type="local"), "test")
    yield index
    await index.close()


async def test_the_cache_saves_reads_and_counts_them(plain, monkeypatch):
    await plain.put([(1, b"a")])
    cached = cache_over(plain)
    assert await cached.get([1, 2, 1]) == [b"a", None, b"a"]
    monkeypatch.setattr(plain, "get", None)
    assert await cached.get([2, 1]) == [None, b"a"]
    assert (cached.counters.hits, cached.counters.misses) == (2, 2)


async def test_the_cache_keeps_to_its_capacity(plain):
    await plain.put([(key, b"x" * 1000) for key in range(3000)])
    cached = cache_over(plain)
    for key in range(3000):
        await cached.get([key])
    assert (1 << 20) - 2000 < cached.counters.bytes <= 1 << 20
    assert cached.counters.evicted == 3000 - cached.counters.bytes // 1150
    before = cached.counters.misses
    await cached.get(range(2200, 3000))
    assert cached.counters.misses == before
    await cached.get([0])
    assert cached.counters.misses == before + 1


async def test_records_that_were_hit_survive_a_scan_with_a_high_priority_pool(plain):
    await plain.put([(key, b"x" * 1000) for key in range(3000)])
    for ratio, survivors in ((0.0, 0), (0.5, 100)):
        cached = cache_over(plain, high_pri_pool_ratio=ratio)
        for _ in range(2):
            await cached.get(range(100))
        await cached.get(range(1000, 3000))
        before = cached.counters.misses
        await cached.get(range(100))
        assert cached.counters.misses - before == 100 - survivors


async def overtake(
    cached: CachedMetaIndex, plain: MetaIndex, monkeypatch, write: Callable[[], Awaitable[object]], when: str
) -> None:
    """A get whose reading of the index is over before or begins during a write, and ends after it."""
    get, has_read, may_go_on = plain.get, asyncio.Event(), asyncio.Event()

    async def slow(keys):
        found = await get(keys)
        has_read.set()
        await may_go_on.wait()
        return found

    monkeypatch.setattr(plain, "get", slow)
    if when == "before":
        reading = asyncio.create_task(cached.get([1]))
        await has_read.wait()
        await write()
    else:
        put, is_writing, may_write = plain.read_modify_write, asyncio.Event(), asyncio.Event()

        async def slow_write(*args):
            is_writing.set()
            await may_write.wait()
            return await put(*args)

        monkeypatch.setattr(plain, "read_modify_write", slow_write)
        writing = asyncio.create_task(write())
        await is_writing.wait()
        reading = asyncio.create_task(cached.get([1]))
        await has_read.wait()
        may_write.set()
        await writing
    may_go_on.set()
    await reading
    monkeypatch.undo()


@pytest.mark.parametrize("when", ["before", "during"])
async def test_what_a_write_overtook_is_not_kept(plain, monkeypatch, when):
    await plain.put([(1, b"old")])
    cached = cache_over(plain)

    async def write() -> None:
        await cached.read_modify_write([1], lambda *_: Put(b"new"))

    await overtake(cached, plain, monkeypatch, write, when)
    assert await cached.get([1]) == [b"new"]
