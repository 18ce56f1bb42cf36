"""Steps of different processes that meet at the worst moment, and callers that give up."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import MetaIndexerSettings, ReclaimSettings
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace, leaving, sweeps
from kvcm_platform.index.pending import RedisPending
from kvcm_platform.index.shards import shards_of
from kvcm_platform.storage import files, mounted
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, storage
from tests.support.valkey import valkey_server

KEYS = list(range(1, 1301))
BASE = keyspace.instance(0xABC, 0)


async def settle(plane: DataPlane) -> None:
    """Every pending deletion becomes due, again and again until none is left but second passes."""
    for _ in range(4):
        for member in plane.client.zrange(keyspace.pending_due(BASE), 0, -1):
            plane.client.zadd(keyspace.pending_due(BASE), {member: 0})
        await plane.duties()


def remove_instance(plane: DataPlane, version: int) -> None:
    entry = plane.mirror.current.instances["model-a"]
    plane.client.execute_command(*leaving.leave_command(entry))
    plane.publish(version, removed=[("instance", "model-a")])


@pytest.mark.one_shard
async def test_a_sweep_meets_a_start_between_two_chunks(plane, empty_valkey, monkeypatch):
    """The instance is removed while a Start inserts: the sweep sees another state than it read."""
    entry = plane.mirror.current.instances["model-a"]
    async with data_plane(empty_valkey.url, plane.client) as writer:
        original, chunks = writer.index.function, 0
        may_go_on, is_halfway = asyncio.Event(), asyncio.Event()

        async def paused(name, *args):
            nonlocal chunks
            if name == "kvcm_write":
                chunks += 1
                if chunks == 2:
                    is_halfway.set()
                    await may_go_on.wait()
            return await original(name, *args)

        monkeypatch.setattr(writer.index, "function", paused)
        starting = asyncio.create_task(writer.start(KEYS))
        await is_halfway.wait()
        fail = plane.index.sessions.fail

        async def overtaken(*args, **options):
            may_go_on.set()
            await asyncio.wait([starting])
            return await fail(*args, **options)

        monkeypatch.setattr(plane.index.sessions, "fail", overtaken)
        remove_instance(plane, 3)
        session = await plane.session()
        swept = sweeps.SweptShard(shards_of(entry)[0], entry)
        await sweeps.sweep_sessions(
            plane.index, swept, list(session.registry.storages.values()), is_forced=True
        )
    monkeypatch.undo()
    assert not (await plane.recount()).has_drift
    await settle(plane)
    plane.client.hset(keyspace.LEAVING_SINCE, entry.number, "0:0")
    plane.client.delete(keyspace.pending(BASE), keyspace.pending_due(BASE))  # the second passes
    await plane.duties()
    assert plane.client.hlen(keyspace.LEAVING) == 0
    assert all(int(amount) == 0 for amount in plane.client.hvals(keyspace.group(1)))


async def test_a_caller_that_gives_up_during_finish_leaves_no_block_writing(plane, monkeypatch):
    started = await plane.start(KEYS, timeout=3600)
    original = plane.index.function

    async def slow(name, *args):
        reply = await original(name, *args)
        if name == "kvcm_finish":
            begun.set()
            await given_up.wait()
        return reply

    begun, given_up = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(plane.index, "function", slow)
    call = asyncio.create_task(plane.finish(started, len(KEYS)))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    monkeypatch.undo()
    given_up.set()
    deadline = plane.client.zscore(keyspace.session_deadlines(BASE), started.session_id)
    if deadline is not None:
        seconds, micros = plane.client.time()
        assert deadline - (seconds * 1000 + micros / 1000) <= 2000
        plane.client.zadd(keyspace.session_deadlines(BASE), {started.session_id: 0})
    await plane.duties()
    assert set(await plane.statuses(KEYS)) == {"SERVING"}


async def test_a_late_writer_of_a_removed_block_is_cleaned_up(plane):
    started = await plane.start([1])
    uri = parse_uri(found(started.locations[0]).uri)
    await plane.service.remove_cache("model-a", Blocks([1], ()), None)
    await settle_first_pass(plane)
    os.makedirs(os.path.dirname(uri.path), exist_ok=True)
    with open(uri.path, "wb") as file:
        file.write(b"late")
    await plane.finish(started, 1)
    assert (await plane.recount()).used == 0
    await settle(plane)
    assert not os.path.exists(uri.path)
    assert plane.client.zcard(keyspace.pending_due(BASE)) == 0


async def settle_first_pass(plane: DataPlane) -> None:
    for member in plane.client.zrange(keyspace.pending_due(BASE), 0, -1):
        plane.client.zadd(keyspace.pending_due(BASE), {member: 0})
    await plane.duties()


@pytest.mark.one_shard
async def test_readers_of_a_removed_instance_keep_their_time(plane):
    plane.publish(3, group(reclaim=ReclaimSettings(delay_before_delete_ms=60_000)))
    await plane.mirror.refresh()
    await plane.write([1, 2, 3])
    remove_instance(plane, 4)
    await plane.duties()
    seconds, _ = plane.client.time()
    due = plane.client.zrange(keyspace.pending_due(BASE), 0, -1, withscores=True)
    assert len(due) == 3
    assert all(score - seconds * 1000 > 58_000 for _, score in due)
    assert (await plane.duties()).deletions.deleted == 0


async def test_two_runners_of_one_deletion_lose_no_second_pass(plane):
    started = await plane.start([1])
    await plane.finish(started, 0)
    pending = RedisPending(plane.index, shards_of(plane.mirror.current.instances["model-a"])[0])
    taken = await pending.due(10)
    for _ in range(2):
        await pending.done([deletion.handle for deletion in taken])
    assert plane.client.zcard(keyspace.pending_due(BASE)) == 1
    assert not (await plane.recount()).has_drift


async def test_a_storage_that_goes_while_a_long_prompt_is_read_is_not_cached(
    plane, empty_valkey, monkeypatch, tmp_path
):
    keys = list(range(1, 1025))
    await plane.write(keys)
    spare = storage("/tmp/spare/", name="nfs_02", number=2)
    async with data_plane(empty_valkey.url, plane.client, is_strict=False) as reader:
        original, calls = reader.index.records, 0
        may_go_on, is_reading = asyncio.Event(), asyncio.Event()

        async def paused(entry, part):
            nonlocal calls
            records = await original(entry, part)
            calls += 1
            if calls == 1:
                is_reading.set()
                await may_go_on.wait()
            return records

        monkeypatch.setattr(reader.index, "records", paused)
        matching = asyncio.create_task(reader.match(keys))
        await is_reading.wait()
        off = storage(tmp_path / "nfs", is_enabled=False)
        plane.publish(9, off, spare, group(storage_candidates=("nfs_01", "nfs_02")))
        await reader.mirror.refresh()
        assert await reader.match(keys) == []
        may_go_on.set()
        await matching
        assert await reader.match(keys[256:]) == []


async def test_blocks_of_a_removed_storage_are_misses(plane):
    await plane.write([1, 2])
    other = storage("/tmp/other/", name="nfs_02", number=2)
    plane.publish(5, other, group(storage_candidates=("nfs_02",)), removed=[("storage", "nfs_01")])
    await plane.mirror.refresh()
    assert await plane.match([1, 2]) == []
    assert len((await plane.start([1, 2])).locations) == 2


async def test_a_refused_giant_start_does_not_hold_the_server_up(plane):
    few = group(meta_indexer=MetaIndexerSettings(max_key_count=600))
    plane.publish(3, few)
    await plane.mirror.refresh()
    with pytest.raises(DomainError) as caught:
        await plane.start(list(range(1, 65_537)))
    assert caught.value.code is Code.CAPACITY
    # Nothing was inserted, so there is nothing to take back.
    assert plane.client.zcard(keyspace.pending_due(BASE)) == plane.client.hlen(keyspace.blocks(BASE)) == 0
    assert (await plane.recount()).reserved == 0


@pytest.mark.one_shard
async def test_steps_of_the_clock_do_not_matter(plane, monkeypatch):
    real = time.time
    for step in (-10, 4000):
        monkeypatch.setattr(time, "time", lambda step=step: real() + step)
        started = await plane.start([step & 0xFF], timeout=1)
        deadline = plane.client.zscore(keyspace.session_deadlines(BASE), started.session_id)
        assert 0 < deadline / 1000 - real() < 2


async def test_an_outage_is_not_ready_also_for_unknown_instances(tmp_path):
    with valkey_server() as server:
        client = server.client()
        async with data_plane(server.url, client, storage(tmp_path), group(), instance()) as plane:
            await plane.match([1])
            server.kill()
            with pytest.raises(Exception, match="cannot be reached|not connected|lost"):
                await plane.match([1], instance_id="unknown")


async def test_a_hung_mount_hangs_nobody(plane, monkeypatch):
    is_over = threading.Event()
    monkeypatch.setattr(mounted, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(files, "unlink", lambda *_: is_over.wait(30))
    await plane.write(KEYS[:24])
    await plane.index.remove(plane.mirror.current.instances["model-a"], KEYS[:24], 0)
    began = time.monotonic()
    report = await plane.duties()
    assert time.monotonic() - began < 15
    is_over.set()
    assert (report.deletions.deleted, report.deletions.postponed) == (0, 24)
    assert any("no answer" in reason or "hangs" in reason for reason in report.deletions.reasons)


async def test_one_unreadable_entry_does_not_stop_the_others(plane):
    plane.publish(5, instance("model-b", 0xDEF))
    await plane.mirror.refresh()
    for name in ("model-a", "model-b"):
        await plane.write([1], name)
        await plane.index.remove(plane.mirror.current.instances[name], [1], 0)
    plane.client.hset(keyspace.pending(BASE), b"x" * 16, b"dgarbage")
    plane.client.zadd(keyspace.pending_due(BASE), {b"x" * 16: 0})
    assert (await plane.duties()).deletions.deleted == 2


async def test_recount_sees_no_drift_where_there_is_only_traffic(plane):
    is_over = False

    async def traffic() -> None:
        key = 10_000
        while not is_over:
            await plane.write([key])
            await plane.index.pusher.flush()
            key += 1
            await asyncio.sleep(0.004)

    working = asyncio.create_task(traffic())
    for _ in range(10):
        try:
            count = await plane.recount()
        except Exception as error:  # noqa: BLE001
            assert type(error).__name__ == "StillChanging"
        else:
            assert not count.has_drift
    is_over = True
    await working


async def test_touches_outlive_a_new_generation(plane):
    await plane.write([1, 2, 3])
    before = plane.client.zrange(keyspace.recency(BASE), 0, -1, withscores=True)
    await asyncio.sleep(0.01)
    await plane.match([1, 2, 3])
    plane.client.hset(BASE, "gen", 99)
    await plane.index.recency.flush()
    assert plane.client.zrange(keyspace.recency(BASE), 0, -1, withscores=True)[0][1] > before[0][1]
