"""What a crash between any two steps leaves, and how the sweeps repair it (DESIGN 4.1, 4.4)."""

from __future__ import annotations

import asyncio

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import InstanceEntry, Quota
from kvcm_platform.index import keyspace, registry, usage
from kvcm_platform.index.connection import IndexUnavailable
from kvcm_platform.index.recount import recount_group
from kvcm_platform.index.shards import shards_of
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, own, storage
from tests.support.valkey import valkey_server

KEYS = list(range(1, 1301))
"""Three chunks of insertion."""
BASE = keyspace.instance(0xABC, 0)
GROUP = keyspace.group(1)


class Died(Exception):
    """Stands for kill -9: nothing after this line runs."""


def die_at(plane: DataPlane, monkeypatch, name: str, call: int = 1, *, after: bool = False) -> None:
    """The process dies at the n-th call of a function, before or after it took effect."""
    original = plane.index.connection.call
    seen = 0

    async def dying(*command, **options):
        nonlocal seen
        if len(command) > 1 and command[1] == name:
            seen += 1
            if seen == call:
                if after:
                    await original(*command, **options)
                raise Died
        return await original(*command, **options)

    monkeypatch.setattr(plane.index.connection, "call", dying)


async def pass_time(plane: DataPlane) -> None:
    """Makes every deadline of the shard and the group lie in the past."""
    client = plane.client
    for session in client.zrange(keyspace.session_deadlines(BASE), 0, -1):
        header = client.hget(keyspace.sessions(BASE), session)
        past = header[:1] + (1).to_bytes(6) + (1).to_bytes(6) + header[13:]
        client.hset(keyspace.sessions(BASE), session, past)
        client.zadd(keyspace.session_deadlines(BASE), {session: 1})
    for field in client.zrange(keyspace.group_reservation_deadlines(GROUP), 0, -1):
        client.zadd(keyspace.group_reservation_deadlines(GROUP), {field: 1})
    for member in client.zrange(keyspace.pending_due(BASE), 0, -1):
        client.zadd(keyspace.pending_due(BASE), {member: 1})


async def settle(plane: DataPlane) -> None:
    for _ in range(3):
        await pass_time(plane)
        await plane.duties()


@pytest.mark.parametrize(
    ("name", "call", "after"),
    [
        ("kvcm_reserve", 1, False),
        ("kvcm_reserve", 1, True),
        ("kvcm_write", 1, False),
        ("kvcm_write", 1, True),
        ("kvcm_write", 2, False),
        ("kvcm_write", 2, True),
        ("kvcm_write", 3, True),
    ],
)
async def test_start_dies(plane, empty_valkey, monkeypatch, name, call, after):
    async with data_plane(empty_valkey.url, plane.client) as doomed:
        die_at(doomed, monkeypatch, name, call, after=after)
        with pytest.raises(Died):
            await doomed.start(KEYS)
    await settle(plane)
    assert set(await plane.statuses(KEYS)) == {"NOT_FOUND"}
    count = await plane.recount()
    assert (count.used, count.reserved, count.has_drift) == (0, 0, False)
    assert plane.client.hlen(keyspace.sessions(BASE)) == 0
    # Slots that were named but never inserted are freed as well: no file can stay behind.
    assert plane.client.hlen(keyspace.slot_files(keyspace.storage(1))) == 0
    assert len((await plane.write(KEYS)).locations) == len(KEYS)


@pytest.mark.parametrize(
    ("name", "call"), [("kvcm_finish", 1), ("kvcm_finish_next", 1), ("kvcm_finish_next", 2)]
)
async def test_finish_dies_after_it_was_accepted(plane, empty_valkey, monkeypatch, name, call):
    """The stored mask decides: a finishing session is completed, not failed."""
    async with data_plane(empty_valkey.url, plane.client) as doomed:
        started = await doomed.start(KEYS)
        mask = [key % 3 != 0 for key in KEYS]
        die_at(doomed, monkeypatch, name, call, after=True)
        with pytest.raises(Died):
            await doomed.finish(started, mask)
    await settle(plane)
    expected = ["SERVING" if success else "NOT_FOUND" for success in mask]
    assert await plane.statuses(KEYS) == expected
    count = await plane.recount()
    assert (count.used, count.has_drift) == (sum(mask) * 1024, False)


async def test_finish_dies_before_it_was_accepted(plane, empty_valkey, monkeypatch):
    async with data_plane(empty_valkey.url, plane.client) as doomed:
        started = await doomed.start(KEYS)
        die_at(doomed, monkeypatch, "kvcm_finish")
        with pytest.raises(Died):
            await doomed.finish(started, len(KEYS))
    await plane.finish(started, len(KEYS))  # another process finishes the same session
    assert len(await plane.match(KEYS)) == len(KEYS)


async def test_a_lost_push_is_made_up(plane):
    await plane.write(KEYS)
    assert plane.client.hget(GROUP, "u") is None
    assert (await plane.duties()).pushes == 0  # the sweeping process had the shard marked and pushed it
    assert int(plane.client.hget(GROUP, "u")) == len(KEYS) * 1024


async def test_a_push_lost_by_another_process_is_made_up(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client) as doomed:
        await doomed.write(KEYS)
    assert (await plane.duties()).pushes == 1
    assert int(plane.client.hget(GROUP, "u")) == len(KEYS) * 1024
    assert (await plane.duties()).pushes == 0


async def test_pushes_may_be_repeated_and_come_late(plane):
    shard = shards_of(plane.mirror.current.instances["model-a"])[0]
    started = await plane.start(KEYS[:10])
    old = await plane.index.connection.call("FCALL", "kvcm_usage", 1, shard.base)
    await plane.finish(started, 5)
    for _ in range(3):
        await usage.push(plane.index.connection, shard)
    await plane.index.connection.call(
        *usage.push_command(shard, usage.as_dict(old[0]), usage.as_dict(old[1]))
    )
    totals = plane.client.hgetall(GROUP)
    assert (int(totals[b"u"]), int(totals[b"p"]), int(totals[b"r"])) == (10 * 1024, 5 * 1024, 0)


async def test_between_insert_and_push_quota_counts_every_byte_once(plane):
    """Used + reserved never falls below the truth while pushes lag."""
    plane.publish(2, group(quota=Quota(15 * 1024)))
    await plane.mirror.refresh()
    await plane.start(KEYS[:10])
    for expected in (10, 10):
        totals = plane.client.hgetall(GROUP)
        assert int(totals.get(b"u", 0)) + int(totals.get(b"r", 0)) == expected * 1024
        with pytest.raises(DomainError):
            await plane.start(range(2000, 2006))
        await plane.index.pusher.flush()
    await plane.start(range(2000, 2005))


async def test_a_late_insert_is_refused_and_leaves_nothing(plane, monkeypatch):
    real = plane.index.now_ms
    monkeypatch.setattr(plane.index, "now_ms", lambda: real() - 60_000)
    with pytest.raises(DomainError) as caught:
        await plane.start(KEYS)
    assert caught.value.code is Code.NOT_READY
    monkeypatch.undo()
    count = await plane.recount()
    assert (count.used, count.reserved) == (0, 0)


async def test_recount_finds_and_repairs_drift(plane):
    await plane.write(KEYS[:10])
    plane.client.hincrby(BASE, f"b:{4 << 16 | 1}:s", 4096)
    plane.client.hincrby(BASE, f"n:{4 << 16 | 1}:s", 2)
    count = await plane.recount()
    assert count.has_drift
    assert count.drift == {"model-a/storage 1/s": {"bytes": -4096, "blocks": -2}}
    assert not (await plane.recount(repair=True)).has_drift
    assert (await plane.recount()).used == 10 * 1024


async def test_recount_finds_shards_that_nobody_owns(plane):
    await plane.write(KEYS[:10])
    await plane.index.pusher.flush()
    row = plane.client.hget(keyspace.group_vectors(GROUP), f"{0xABC}:0")
    plane.client.hset(keyspace.group_vectors(GROUP), "4711:0", row)
    plane.client.hincrby(GROUP, "u", 10 * 1024)
    count = await plane.recount()
    assert count.drift == {"unknown shard 4711:0": {"bytes": -10 * 1024, "blocks": -10}}
    assert not (await plane.recount(repair=True)).has_drift


async def test_an_instance_that_is_registered_during_a_repair_is_no_stranger(plane):
    await plane.write(KEYS[:10])
    session = await plane.session()
    is_counted: list[bool] = []

    async def instances() -> list[InstanceEntry]:
        """As they were, and another one that writes right after the first look."""
        before = await session.instances_in(1)
        if not is_counted:
            plane.publish(2, instance("model-b", 0xDEF))
            await plane.write(KEYS[:5], "model-b")
            await plane.index.pusher.flush()
        is_counted.append(plane.client.hexists(keyspace.group_vectors(GROUP), f"{0xDEF}:0"))
        return before

    count = await recount_group(plane.index, "default", 1, instances, repair=True)
    assert (count.used, count.drift) == (15 * 1024, {})
    assert all(is_counted), "what it uses was never taken out of the group's sum"


async def test_the_server_restarts(tmp_path):
    """A new life of the server: a new generation, functions and data from its log, service at once."""
    with valkey_server() as server:
        client = server.client()
        async with data_plane(server.url, client, storage(tmp_path), group(), instance()) as plane:
            await plane.write(KEYS)
            started = await plane.start([9001, 9002])
            client.execute_command("WAITAOF", 1, 0, 3000)
            before = own(plane).generation
            await asyncio.to_thread(server.restart)
            await until_it_answers(plane)
            assert own(plane).generation > before
            assert len(await plane.match(KEYS)) == len(KEYS)
            await plane.finish(started, 2)
            count = await plane.recount()
            assert (count.used, count.has_drift) == ((len(KEYS) + 2) * 1024, False)


async def until_it_answers(plane: DataPlane) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                await plane.index.connection.call("PING")
                return
            except IndexUnavailable:
                await asyncio.sleep(0.02)


@pytest.mark.redis_only
async def test_an_older_generation_changes_nothing(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client) as stale:
        shard = stale.mirror.current.instances["model-a"]
        old = own(stale).generation
        plane.client.hset(keyspace.GENERATION, "number", old + 7)
        own(plane).generation = old + 7
        await plane.write(KEYS[:3])
        with pytest.raises(Exception, match="generation"):
            await stale.index.connection.call(
                "FCALL", "kvcm_remove", 1, BASE, old, "all", 0, 0, 0, b"\0" * 7 + b"\1", ""
            )
        # The refused process has learned the new number; the index's own calls repeat themselves.
        assert (await stale.index.remove(shard, [1], 0)).locations == 1


async def test_without_the_server_calls_are_refused_quickly(tmp_path):
    with valkey_server() as server:
        client = server.client()
        async with data_plane(server.url, client, storage(tmp_path), group(), instance()) as plane:
            await plane.write([1, 2])
            server.kill()
            for call in (plane.match([1, 2]), plane.start([3])):
                async with asyncio.timeout(1.5):
                    with pytest.raises(DomainError) as caught:
                        await call
                assert caught.value.code is Code.NOT_READY


async def test_publications_may_come_in_any_order(plane, tmp_path):
    plane.publish(5, group(user_data="new"))
    plane.publish(4, group(user_data="old"))
    plane.publish(6, removed=[("instance", "model-a")])
    plane.publish(3, instance())
    await plane.mirror.refresh()
    assert plane.mirror.current.groups["default"].user_data == "new"
    assert "model-a" not in plane.mirror.current.instances
    assert registry.read_version(plane.client) == 6
    assert registry.read(plane.client) == plane.mirror.current


async def test_a_new_instance_is_known_without_waiting(plane):
    plane.publish(2, instance("fresh", 0x123))
    assert len((await plane.write([1, 2], "fresh")).locations) == 2


async def test_reads_keep_runs_young(plane):
    """A match touches the runs of its prefix and of its masked blocks; a removed run never comes back."""
    await plane.write(KEYS[:64])
    runs = plane.client.zrange(keyspace.recency(BASE), 0, -1, withscores=True)
    assert len(runs) == 4
    old = dict(runs)
    await asyncio.sleep(0.01)
    assert len(await plane.match(KEYS[:40], mask=16)) == 24
    await plane.index.recency.flush()
    now = dict(plane.client.zrange(keyspace.recency(BASE), 0, -1, withscores=True))
    touched = {name for name in old if now[name] > old[name]}
    assert len(touched) == 3
    # Within one tick the deepest run is the oldest.
    ordered = [name for name in plane.client.zrange(keyspace.recency(BASE), 0, -1) if name in touched]
    assert [int.from_bytes(name[8:]) for name in ordered] == [2, 1, 0]
    await plane.match(KEYS[:64])
    await plane.index.remove(plane.mirror.current.instances["model-a"], KEYS[:64], 0)
    await settle(plane)
    await plane.index.recency.flush()
    assert plane.client.zcard(keyspace.recency(BASE)) == 0


async def test_every_change_is_on_the_event_stream_with_its_epoch(plane):
    started = await plane.start(KEYS[:3])
    await plane.finish(started, 2)
    await plane.index.remove(plane.mirror.current.instances["model-a"], [1], 0)
    events = [fields for _, fields in plane.client.xrange(keyspace.events(BASE))]
    keys = {
        kind: b"".join(key.to_bytes(8) for key in numbers)
        for kind, numbers in {"serve": [1, 2], "fail": [3], "remove": [1]}.items()
    }
    assert [(event[b"t"], event[b"k"]) for event in events[-1:]] == [(b"drop", keys["remove"])]
    assert {(event[b"t"], event[b"k"]) for event in events[:-1]} == {
        (b"serve", keys["serve"]),
        (b"drop", keys["fail"]),
    }
    assert [int(event[b"e"]) for event in events] == [1, 2, 3]
    assert int(plane.client.hget(BASE, "epoch")) == 3


async def test_uris_of_one_start_do_not_depend_on_the_chunks(plane):
    started = await plane.start(KEYS)
    uris = [found(wire).uri for wire in started.locations]
    assert len(set(uris)) == len(KEYS)
