"""`max_key_count` and settings of MetaIndex, over every backend."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import CachePolicy
from kvcm_platform.index.meta_index.factory import open_meta_index
from kvcm_platform.index.meta_index.interface import Outcome, Put, Skip
from tests.support.meta_index import PLAIN, counter, refused

# Limits


async def test_max_key_count_is_exact(bench):
    index = await bench.open(max_key_count=10, mutex_shard_num=1)
    await index.put([(key, b"a") for key in range(9)])
    await refused(index.put([(20, b"a"), (21, b"a")]), Code.CAPACITY)  # a batch is all or nothing
    assert await index.get([20, 21]) == [None, None]
    await index.put([(3, b"b"), (20, b"a"), (20, b"b")])
    error = await refused(index.put([(21, b"a")]), Code.CAPACITY)
    assert "max_key_count 10" in error.message
    await refused(index.read_modify_write([21], counter), Code.CAPACITY)
    await index.update([(21, b"x")])  # creates nothing, so nothing is refused
    await index.read_modify_write([3, 21], lambda key, _: Put(b"c") if key == 3 else Skip())
    await index.delete([0])
    await index.put([(21, b"a")])
    assert await index.count() == 10
    assert await index.get([0, 3, 20, 21]) == [None, b"c", b"b", b"a"]


async def test_max_key_count_is_exact_under_concurrency(bench):
    indexes = [await bench.open(max_key_count=50)]
    if bench.backend in ("redis", "redis, 3 shards"):
        indexes.append(await bench.open(max_key_count=50))
    for round_number in range(3):

        async def create(key: int) -> bool:
            try:
                await indexes[key % len(indexes)].put([(key, b"r")])
            except DomainError as error:
                assert error.code is Code.CAPACITY
                return False
            return True

        created = await asyncio.gather(*(create(key) for key in range(120)))
        assert (sum(created), await indexes[0].count()) == (50, 50), round_number
        assert set(await indexes[0].delete([k for k in range(120) if created[k]])) == {Outcome.DELETED}


@pytest.mark.parametrize("bench", ["redis, 3 shards"], indirect=True)
async def test_room_reserved_by_a_dead_process_comes_back(bench, monkeypatch):
    """Reserved, never used: the room is given back when its time is over; used and not pushed: it counts."""
    index = await bench.open(max_key_count=10, mutex_shard_num=1)
    call, pipeline = bench.connection.call, bench.connection.pipeline
    step = "write"

    async def dies(commands, **options):
        if commands and commands[0][1] == ("kvcm_meta_write" if step == "write" else "kvcm_meta_state"):
            raise ConnectionAbortedError
        return await pipeline(commands, **options)

    monkeypatch.setattr(bench.connection, "pipeline", dies)
    with pytest.raises(ConnectionAbortedError):
        await index.put([(key, b"r") for key in range(4)])
    step = "push"
    with pytest.raises(ConnectionAbortedError):
        await index.put([(key, b"r") for key in range(100, 103)])
    monkeypatch.undo()
    written = await index.count()
    assert 0 < written <= 3
    for field, value in dict(zip(*[iter(await call("HGETALL", "{mi:test}:r"))] * 2, strict=True)).items():
        await call("HSET", "{mi:test}:r", field, value.split()[0] + b" 1")  # long ago
    await index.put([(key, b"r") for key in range(200, 210 - written)])
    assert await index.count() == 10
    await refused(index.put([(300, b"r")]), Code.CAPACITY)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_key_count": 0},
        {"mutex_shard_num": 12},
        {"mutex_shard_num": 16, "max_key_count": 8},
        {"batch_key_size": -1},
        {"storage_type": "paper"},
    ],
)
async def test_settings_that_cannot_be_used_are_refused(bench, changes):
    await refused(bench.open(**changes), Code.INVALID_ARGUMENT)


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("rocksdb", ""),
        ("rocksdb", "rocks"),
        ("local", "http://host/x"),
        ("local", "file:///tmp/x?persist_interval_ms=0"),
        ("redis", "?shards=0"),
        ("redis", "?shards=x"),
    ],
)
async def test_uris_that_cannot_be_used_are_refused(redis_connection, kind, uri):
    settings = replace(PLAIN, storage_type=kind, storage_uri=uri)
    await refused(open_meta_index(settings, "test", commands=redis_connection), Code.INVALID_ARGUMENT)


@pytest.mark.parametrize(
    "policy", [CachePolicy(type="fifo"), CachePolicy(shard_bits=31), CachePolicy(high_pri_pool_ratio=1.5)]
)
async def test_cache_policies_of_another_kind_are_refused(redis_connection, policy):
    await refused(open_meta_index(replace(PLAIN, cache_policy=policy), "test"), Code.INVALID_ARGUMENT)
