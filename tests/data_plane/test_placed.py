"""A group whose index lies on a Redis of its own: the same rules there, and its outages are its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
import redis
from redis.exceptions import RedisError

from apps.storages.usage import usage_by_storage
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import FairnessLimits, MetaIndexerSettings, Quota
from kvcm_platform.core.types import TrimStrategy
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties.run import duties_run
from kvcm_platform.duties.session import index_session
from kvcm_platform.index import blocking, keyspace, leaving, registry, stats
from kvcm_platform.index.placed import Places
from kvcm_platform.index.placed_client import PlacedClient
from kvcm_platform.index.recount import recount_group
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, storage
from tests.support.valkey import ValkeyServer, valkey_server

KEYS = list(range(1, 701))
FAR = keyspace.instance(0xFA5, 0)


@pytest.fixture
def far() -> Iterator[ValkeyServer]:
    with valkey_server() as server:
        yield server


def far_group(far: ValkeyServer, **changes):
    indexer = MetaIndexerSettings(storage_type="redis", storage_uri=far.url, max_key_count=10_000_000)
    return group(name="far", number=7, meta_indexer=indexer, **changes)


@pytest.fixture
async def plane(empty_valkey, far, tmp_path) -> AsyncIterator[DataPlane]:
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    entries = (
        storage(tmp_path / "nfs"),
        group(),
        far_group(far),
        instance(),
        instance("there", 0xFA5, group="far", group_number=7),
    )
    client = empty_valkey.client()
    async with data_plane(empty_valkey.url, client, *entries) as built:
        yield built
    client.close()


def lenient(plane: DataPlane, valkey: ValkeyServer, *, is_lenient: bool = True) -> PlacedClient:
    return PlacedClient(plane.client, valkey.url, blocking.client, is_lenient=is_lenient)


def make_due(own: redis.Redis) -> None:
    due = keyspace.pending_due(FAR)
    if waiting := own.zrange(due, 0, -1):
        own.zadd(due, dict.fromkeys(waiting, 0))


async def test_blocks_lie_where_the_group_says_and_nowhere_else(plane, far, empty_valkey):
    await plane.write(KEYS, "there")
    await plane.write(KEYS[:3])
    assert len(await plane.match(KEYS, instance_id="there")) == len(KEYS)
    assert len(await plane.match(KEYS)) == 3
    own = far.client()
    assert own.hlen(keyspace.blocks(FAR)) == len(KEYS)
    assert not plane.client.exists(keyspace.blocks(FAR), FAR)
    assert not own.exists(keyspace.REGISTRY, keyspace.blocks(keyspace.instance(0xABC, 0)))
    await plane.index.pusher.flush()
    assert int(own.hget(keyspace.group(7), "u")) == len(KEYS) * 1024
    # What pages show is put together from both.
    both = lenient(plane, empty_valkey)
    assert stats.group_usages(both, [1, 7])[7].used_bytes == len(KEYS) * 1024
    assert usage_by_storage(both)[1].blocks == len(KEYS) + 3
    own.close()


async def test_the_whole_life_of_its_blocks(plane, far):
    started = await plane.start(KEYS, "there")
    await plane.finish(started, [key % 2 == 0 for key in KEYS], "there")
    await plane.service.remove_cache("there", Blocks(KEYS[:100], ()), None)
    own = far.client()
    make_due(own)
    await plane.duties()
    session = await plane.session()
    count = await recount_group(plane.index, "far", 7, partial(session.instances_in, 7), repair=False)
    assert (count.used, count.reserved, count.has_drift) == (300 * 1024, 0, False)
    entry = plane.mirror.current.instances["there"]
    plane.client.execute_command(*leaving.leave_command(entry))
    plane.publish(9, removed=[("instance", "there"), ("group", "far")])
    for _ in range(3):
        await plane.duties()
        make_due(own)
    assert own.hlen(keyspace.blocks(FAR)) == 0
    own.close()


async def test_its_quota_and_limits_hold_there(plane, far):
    plane.publish(2, far_group(far, quota=Quota(5 * 1024), limits=FairnessLimits(calls_per_second=1000)))
    await plane.mirror.refresh()
    with pytest.raises(DomainError) as caught:
        await plane.start(KEYS[:6], "there")
    assert caught.value.code is Code.CAPACITY
    assert len((await plane.start(KEYS[:5], "there")).locations) == 5


async def test_an_outage_is_the_groups_own(plane, far, empty_valkey):
    await plane.write(KEYS, "there")
    await plane.write(KEYS)
    own = far.client()
    own.set("written", "before")
    own.execute_command("WAITAOF", 1, 0, 5000)  # a server that dies may forget its last second
    own.close()
    far.kill()
    with pytest.raises(DomainError) as caught:
        await plane.match(KEYS, instance_id="there")
    assert caught.value.code is Code.NOT_READY
    assert len(await plane.match(KEYS)) == len(KEYS)
    await plane.start([5000])
    with pytest.raises(Exception, match="Redis"):
        await plane.cache.refresh_active()
    assert len(await plane.match(KEYS)) == len(KEYS)
    # Publications of everything else go on, and pages leave out what is not known.
    plane.publish(3, far_group(far, quota=Quota(1)), group(quota=Quota(77)))
    assert int(plane.client.hget(keyspace.group_limits(keyspace.group(1)), "total")) == 77
    assert usage_by_storage(lenient(plane, empty_valkey))[1].blocks == len(KEYS) + 1
    with pytest.raises(Exception, match="onnect"):
        usage_by_storage(lenient(plane, empty_valkey, is_lenient=False))
    far.restart()
    registry.set_limits(plane.client, [far_group(far)], 4)
    started = await plane.start([9000], "there")
    assert found(started.locations[0]).uri
    assert len(await plane.match(KEYS, instance_id="there")) == len(KEYS)


async def test_the_process_and_its_duties_go_on_without_it(plane, far, empty_valkey):
    """What the background does for everybody else must not stop with one group's server."""
    await plane.write(KEYS, "there")
    await plane.write(KEYS)
    entries, tick = plane.mirror.current.instances, plane.index.now_ms() + 1000
    for name in ("there", "model-a"):
        plane.index.touch_keys(entries[name], KEYS[:1], 0, tick)
    far.kill()
    await plane.index.connection.learn_clock()
    await plane.index.connection.stamp()
    near = keyspace.instance(0xABC, 0)
    before = plane.client.zrange(keyspace.recency(near), 0, -1, withscores=True)
    with pytest.raises(RedisError):  # what loops of the background wait out
        await plane.index.recency.flush()
    assert plane.client.zrange(keyspace.recency(near), 0, -1, withscores=True) != before
    # A trim asks for the clock, its removals are deleted by the duties, and sessions expire.
    await plane.service.trim_cache("model-a", TrimStrategy.REMOVE_ALL_CACHE, 0, 0)
    await plane.start([9000], timeout=1)
    plane.make_due()
    async with index_session(empty_valkey.url) as session:
        report = await duties_run(session)
    assert report.deletions.deleted == len(KEYS)
    assert stats.instance_usages(lenient(plane, empty_valkey), list(entries.values()))["model-a"].blocks == 1


async def test_nobody_waits_for_its_clock(plane, monkeypatch):
    """A server that never answers holds up neither the heartbeat nor trims of other groups."""
    await plane.write(KEYS[:3], "there")
    await plane.write(KEYS[:3])
    connection, asked = plane.index.connection, asyncio.Event()

    async def never() -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(connection.server_of(FAR), "learn_clock", never)
    async with asyncio.timeout(40):
        await connection.stamp()
        await asked.wait()
        await connection.learn_clock()
        await connection.stamp()
        await plane.service.trim_cache("model-a", TrimStrategy.REMOVE_ALL_CACHE, 0, 0)


async def test_a_url_that_says_nothing_is_its_groups_trouble_alone(plane, far, empty_valkey):
    indexer = MetaIndexerSettings(storage_type="redis", storage_uri="redis://[::1", max_key_count=100)
    lost = instance("lost", 0xBAD, group="lost", group_number=8)
    plane.publish(3, group(name="lost", number=8, meta_indexer=indexer), lost, group(quota=Quota(77)))
    assert registry.read_version(plane.client) == 3
    await plane.mirror.refresh()
    assert plane.mirror.current.groups["default"].quota.capacity_bytes == 77
    with pytest.raises(DomainError) as caught:
        await plane.match(KEYS[:2], instance_id="lost", mask=1)  # the masked one counts as used
    assert caught.value.code is Code.NOT_READY
    with pytest.raises(RedisError):  # what loops of the background wait out
        await plane.index.recency.flush()
    assert await plane.match(KEYS[:1]) == []
    # The short way of a call raises nothing: the usual one answers.
    assert plane.service.prefix_at_once("lost", KEYS[0].to_bytes(8), 0) is None
    with pytest.raises(RedisError):
        await plane.cache.refresh_active()
    async with index_session(empty_valkey.url) as session:
        assert session.cut_off == {8}
        assert (await duties_run(session)).failures == 0
    assert usage_by_storage(lenient(plane, empty_valkey)) is not None


def test_where_keys_lie():
    places = Places.of({b"g:7": b"redis://b", b"i:4005": b"7", b"g:8": b"redis://own"}, "redis://own")
    where = {
        "{fa5:0}:b": "redis://b",
        b"{fa5:3}": "redis://b",
        "{g:7}:l": "redis://b",
        "{g:8}": "",
        "{abc:0}:b": "",
        "{st:7}": "",
        "{kvcm}:registry": "",
        "kvcm:facts": "",
        "": "",
    }
    assert {key: places.url_of(key) for key in where} == where
