"""The search cache never hands out what is gone and never hides what is there (DESIGN 4.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kvcm_platform.index import following, keyspace, search_cache
from kvcm_platform.index.single import SingleConnection
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage
from tests.support.valkey import valkey_server

KEYS = list(range(1, 301))
"""Four whole chunks and a tail of 44."""
BASE = keyspace.instance(0xABC, 0)


@pytest_asyncio.fixture
async def reader(plane: DataPlane, empty_valkey) -> AsyncIterator[DataPlane]:
    """Another process with a lazy cache: it trusts its position as long as the design allows."""
    async with data_plane(empty_valkey.url, plane.client, is_strict=False) as other:
        yield other


def forbid_reading_blocks(plane: DataPlane, monkeypatch) -> None:
    original = SingleConnection.call

    async def call(self, *command, **options):
        assert command[0] != "HMGET", "blocks were read from the index"
        return await original(self, *command, **options)

    monkeypatch.setattr(SingleConnection, "call", call)


async def remove(plane: DataPlane, keys: list[int]) -> None:
    await plane.index.remove(plane.mirror.current.instances["model-a"], keys, 0)


async def test_a_known_prefix_is_answered_from_memory(plane, reader, monkeypatch):
    await plane.write(KEYS)
    first = await reader.match(KEYS)
    forbid_reading_blocks(reader, monkeypatch)
    assert await reader.match(KEYS) == first
    assert len(first) == 300
    # A shorter prompt of the same tree shares the whole chunks.
    assert await reader.match(KEYS[:128]) == first[:128]
    assert reader.cache.counters.hit_chunks == 5 + 2


@pytest.mark.one_shard
async def test_a_removal_elsewhere_is_seen_with_the_next_confirmation(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await remove(plane, [70])
    await reader.cache.refresh_active()
    assert len(await reader.match(KEYS)) == 69
    assert reader.cache.counters.invalidated_chunks == 1


async def test_a_removal_is_seen_within_the_promised_time_without_any_background_work(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await remove(plane, [70])
    await asyncio.sleep(search_cache.MAX_AGE)
    assert len(await reader.match(KEYS)) == 69


async def test_a_process_sees_its_own_removals_at_once(plane, reader):
    await plane.write(KEYS)
    for key in (300, 200, 64, 1):
        assert len(await reader.match(KEYS)) >= key
        await remove(reader, [key])
        assert len(await reader.match(KEYS)) == key - 1


async def test_strict_reads_see_a_removal_at_once(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client, is_strict=True) as strict:
        await plane.write(KEYS)
        for key in (300, 200, 64, 1):
            assert len(await strict.match(KEYS)) >= key
            await remove(plane, [key])
            assert len(await strict.match(KEYS)) == key - 1


async def test_what_another_process_finished_is_seen_by_the_next_call(plane, reader):
    await plane.write(KEYS[:100])
    assert len(await reader.match(KEYS)) == 100
    await plane.write(KEYS[:228])
    assert len(await reader.match(KEYS)) == 228
    await plane.write(KEYS)
    assert len(await reader.match(KEYS)) == 300


async def test_a_removal_while_a_chunk_is_read_keeps_it_out(plane, reader, monkeypatch):
    await plane.write(KEYS)
    original = reader.index.records

    async def removed_meanwhile(entry, keys):
        records = await original(entry, keys)
        monkeypatch.undo()
        await remove(plane, [10])
        await reader.cache.refresh_active()
        return records

    await reader.match(KEYS[:1])  # the stream position is known
    monkeypatch.setattr(reader.index, "records", removed_meanwhile)
    await reader.match(KEYS)
    await reader.cache.refresh_active()
    assert len(await reader.match(KEYS)) == 9


@pytest.mark.one_shard
async def test_a_trimmed_stream_empties_the_cache(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await remove(plane, [5])
    plane.client.xtrim(keyspace.events(BASE), maxlen=0)
    await reader.cache.refresh_active()
    assert reader.cache.counters.resets == 1
    assert len(await reader.match(KEYS)) == 4


@pytest.mark.one_shard
async def test_a_gap_in_the_stream_empties_the_cache(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await remove(plane, [5])
    await remove(plane, [250])
    lost = plane.client.xrange(keyspace.events(BASE))[-2][0]
    plane.client.xdel(keyspace.events(BASE), lost)
    await reader.cache.refresh_active()
    assert len(await reader.match(KEYS)) == 4


async def test_many_events_at_once_are_all_applied(plane, reader, monkeypatch):
    monkeypatch.setattr(following, "STREAM_BATCH", 10)
    await plane.write(KEYS)
    await reader.match(KEYS)
    for key in range(300, 200, -1):
        await remove(plane, [key])
    await asyncio.sleep(search_cache.MAX_AGE)
    assert len(await reader.match(KEYS)) == 200


async def test_a_storage_that_is_disabled_takes_its_chunks_along(plane, reader, tmp_path):
    await plane.write(KEYS)
    await reader.match(KEYS)
    spare = storage("/tmp/spare/", name="nfs_02", number=2)
    plane.publish(
        2, storage(tmp_path / "nfs", is_enabled=False), spare, group(storage_candidates=("nfs_01", "nfs_02"))
    )
    await reader.mirror.refresh()
    assert await reader.match(KEYS) == []
    plane.publish(3, storage(tmp_path / "nfs"))
    await reader.mirror.refresh()
    assert len(await reader.match(KEYS)) == 300


async def test_memory_is_bounded_and_answers_stay_right(plane, empty_valkey):
    limit = 60_000
    async with data_plane(empty_valkey.url, plane.client, cache_bytes=limit) as small:
        prompts = [[number * 1000 + depth for depth in range(200)] for number in range(1, 21)]
        for keys in prompts:
            await plane.write(keys)
        for _ in range(3):
            for keys in prompts:
                assert len(await small.match(keys)) == 200
                assert small.cache.counters.bytes <= limit
        held = sum(part.size for part in small.cache._instances.values())
        assert held == small.cache.counters.bytes > 0
        assert small.cache.counters.evicted_chunks > 0


@pytest.mark.parametrize(("capacity_mb", "is_cached"), [(0, False), (1, True)])
async def test_a_group_may_turn_the_cache_off(plane, reader, capacity_mb, is_cached):
    indexer = group().meta_indexer
    policy = type(indexer.cache_policy)(capacity_mb=capacity_mb)
    plane.publish(2, group(meta_indexer=type(indexer)(cache_policy=policy)))
    await reader.mirror.refresh()
    await plane.write(KEYS)
    await reader.match(KEYS)
    assert len(await reader.match(KEYS)) == 300
    assert bool(reader.cache.counters.bytes) is is_cached


@pytest.mark.one_shard
async def test_hits_from_memory_keep_their_runs_young(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await reader.index.recency.flush()
    before = dict(plane.client.zrange(keyspace.recency(BASE), 0, -1, withscores=True))
    await asyncio.sleep(0.01)
    await reader.match(KEYS[:128])
    await reader.index.recency.flush()
    after = dict(plane.client.zrange(keyspace.recency(BASE), 0, -1, withscores=True))
    touched = sorted((after[name], int.from_bytes(name[8:])) for name in after if after[name] > before[name])
    # 128 blocks are the first eight runs; within the tick the deepest is the oldest.
    assert [ordinal for _, ordinal in touched] == [7, 6, 5, 4, 3, 2, 1, 0]


async def test_a_restarted_server_is_never_answered_for_from_old_memory(tmp_path):
    with valkey_server() as server:
        client = server.client()
        entries = (storage(tmp_path), group(), instance())
        async with (
            data_plane(server.url, client, *entries) as plane,
            data_plane(server.url, client, is_strict=False) as reader,
        ):
            await plane.write(KEYS)
            await reader.match(KEYS)
            client.execute_command("WAITAOF", 1, 0, 3000)
            await asyncio.to_thread(server.restart)
            async with asyncio.timeout(20):
                while True:
                    try:
                        await remove(plane, [30])
                        break
                    except Exception as error:  # noqa: BLE001
                        assert "cannot be reached" in str(error)
                        await asyncio.sleep(0.05)
            await asyncio.sleep(search_cache.MAX_AGE)
            assert len(await reader.match(KEYS)) == 29
