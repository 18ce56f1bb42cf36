"""Masters that die, hang, and are replaced by a replica."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import kombu
import pytest
import pytest_asyncio
import redis

from apps.live.layer import LiveLayer
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import blocking, keyspace
from kvcm_platform.settings.env import Env
from kvcm_platform.settings.parts.queues import celery_settings, channel_layers
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, data_plane, group, instance, own, storage
from tests.support.eventually import eventually
from tests.support.objects import put_objects
from tests.support.valkey_cluster import (
    Node,
    ValkeyCluster,
    Watched,
    valkey_cluster,
    watched_by_sentinels,
)

BASE = keyspace.instance(0xABC, 0)
KEYS = list(range(1, 201))
REFUSED_WITHIN = 1.5
"""The rule is 200 ms without a connection and 500 ms for a read. A machine that stalls adds to single calls:
what counts is the quickest of several, and MOST bounds each."""
MOST = 10.0


@pytest.fixture(scope="module")
def replicated() -> Iterator[ValkeyCluster]:
    with valkey_cluster(3, 3) as cluster:
        yield cluster


async def until_served(plane: DataPlane, seconds: float = 60.0) -> int:
    """Asks until it is answered; every refusal is NOT_READY and quick. Returns the number of refusals."""
    took, deadline = list[float](), time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        try:
            await plane.match(KEYS)
            assert min(took, default=0) < REFUSED_WITHIN
            return len(took)
        except DomainError as error:
            assert error.code is Code.NOT_READY
            took.append(time.monotonic() - begun)
            assert took[-1] < MOST
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def planes(replicated: ValkeyCluster, tmp_path) -> AsyncIterator[tuple[DataPlane, DataPlane]]:
    """Two processes; the replicas have what was written before the test goes on."""
    replicated.heal()
    replicated.flush()
    client = replicated.client()
    marker.mark(str(tmp_path))
    entries = (storage(tmp_path), group(), instance(specs=[("tp0", 4096)]))
    async with (
        data_plane(replicated.url, client, *entries) as plane,
        data_plane(replicated.url, client) as other,
    ):
        put_objects((await plane.write(KEYS)).locations)
        for one in (plane, other):
            assert len(await one.match(KEYS)) == len(KEYS)
        replicated.owner(BASE).client.execute_command("WAIT", 1, 3000)
        yield plane, other


async def test_a_master_dies_and_its_replica_takes_over(planes, replicated):
    plane, other = planes
    generation = own(plane).generation
    owner = replicated.owner(BASE)
    elsewhere = next(n for n in range(1000) if replicated.owner(keyspace.instance(n, 0)) is not owner)
    owner.kill()
    begun = time.monotonic()
    with pytest.raises(DomainError) as caught:
        await plane.start([4711])
    assert caught.value.code is Code.NOT_READY
    assert time.monotonic() - begun < MOST
    assert await plane.index.connection.call("HGET", keyspace.instance(elsewhere, 0), "gen") is None
    resets = [one.cache.counters.resets for one in planes]
    await until_served(plane)
    await until_served(other)
    assert own(plane).generation > generation
    assert own(other).generation == own(plane).generation
    # What was remembered of the former life is gone.
    assert [one.cache.counters.resets for one in planes] == [number + 1 for number in resets]
    # The replica may have missed that a block was deleted: none is served before its object was looked at.
    assert await plane.match(KEYS) == await other.match(KEYS) == []
    assert (await plane.duties()).lost == 0
    assert len(await other.match(KEYS)) == len(KEYS)
    await plane.write([5001])
    assert len(await other.match([5001])) == 1
    assert not (await plane.recount()).has_drift


async def test_only_shards_of_the_failed_master_are_in_doubt(planes, replicated):
    plane, _ = planes
    owner = replicated.owner(BASE)
    number = next(n for n in range(1000) if replicated.owner(keyspace.instance(n, 0)) is not owner)
    plane.publish(7, instance("elsewhere", number))
    await plane.mirror.refresh()
    await plane.write([1, 2, 3], "elsewhere")
    await plane.index.connection.stamp()
    owner.kill()
    await until_served(plane)
    assert await plane.match(KEYS) == []
    assert len(await plane.match([1, 2, 3], instance_id="elsewhere")) == 3


async def test_a_master_that_comes_back_by_itself_is_trusted(planes, replicated):
    """It restarts from its own log before anybody took over; living processes remember its stamp."""
    plane, other = planes
    owner = replicated.owner(BASE)
    replica = replicated.replica_of(owner)
    replica.client.execute_command("CONFIG", "SET", "cluster-replica-no-failover", "yes")
    try:
        for one in planes:
            await one.index.connection.stamp()
        owner.client.execute_command("WAITAOF", 1, 0, 3000)
        generation = own(plane).generation
        owner.kill()
        await asyncio.to_thread(owner.start_again)
        await until_served(plane)
        assert own(plane).generation > generation
        assert len(await plane.match(KEYS)) == len(KEYS)
        await until_served(other)
        assert len(await other.match(KEYS)) == len(KEYS)
    finally:
        replica.client.execute_command("CONFIG", "SET", "cluster-replica-no-failover", "no")


async def test_a_master_hangs_and_its_replica_takes_over(planes, replicated):
    """Nothing tells a hung server from a slow one but time: reads give up sooner than the connection."""
    plane, _ = planes
    owner = replicated.owner(BASE)
    owner.stop()
    try:
        assert await until_served(plane) > 0
        assert replicated.owner(BASE) is not owner
    finally:
        owner.cont()
    await plane.write([5002])


async def test_a_hung_server_refuses_in_time(empty_cluster, tmp_path):
    client = empty_cluster.client()
    async with data_plane(empty_cluster.url, client, storage(tmp_path), group(), instance()) as plane:
        await plane.write(KEYS)
        owner: Node = empty_cluster.owner(BASE)
        owner.stop()
        try:

            async def refused_in(call: Callable[[], Awaitable[object]]) -> float:
                begun = time.monotonic()
                with pytest.raises(DomainError):
                    await call()
                return time.monotonic() - begun

            assert (
                min([await refused_in(lambda: plane.match([*KEYS, 777])) for _ in range(3)]) < REFUSED_WITHIN
            )
            # The silence is known by now: nothing more is sent.
            remove = partial(plane.service.remove_cache, "model-a", Blocks([1], ()), None)
            assert min([await refused_in(remove) for _ in range(3)]) < REFUSED_WITHIN
        finally:
            owner.cont()
        assert await until_served(plane) >= 0


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with watched_by_sentinels() as built:
        yield built


async def test_queues_and_channels_behind_sentinels(watched, tmp_path):
    """Celery's broker and the channel layer find the master by the same URL."""
    known = Env({"KVCM_DATA_DIR": str(tmp_path), "KVCM_REDIS_URL": watched.url})
    queues = celery_settings(known)
    options = queues["broker_transport_options"]
    with (
        kombu.Connection(queues["broker_url"], transport_options=options) as broker,
        broker.SimpleQueue("kvcm-test") as queue,
    ):
        queue.put("task")
        message = queue.get(timeout=40)
        assert message.payload == "task"
        message.ack()
    assert b"kvcm-test" in b" ".join(watched.master.client.keys("*kvcm-test*"))
    layer = LiveLayer(**channel_layers(known)["default"]["CONFIG"])
    channel = await layer.new_channel()
    await layer.group_add("group", channel)
    await layer.group_send("group", {"type": "live.message"})
    assert await layer.receive(channel) == {"type": "live.message"}
    await layer.flush()


async def test_sentinels_name_another_master(watched, tmp_path):
    client = blocking.client(watched.url)
    marker.mark(str(tmp_path))
    async with data_plane(
        watched.url, client, storage(tmp_path), group(), instance(specs=[("tp0", 4096)])
    ) as plane:
        put_objects((await plane.write(KEYS)).locations)
        generation = own(plane).generation
        assert watched.master.client.execute_command("WAIT", 1, 3000) == 1
        watched.master.kill()
        assert await until_served(plane, 30) > 0
        assert own(plane).generation > generation
        assert await plane.match(KEYS) == []
        await plane.duties()
        assert len(await plane.match(KEYS)) == len(KEYS)
        await plane.write([5001])
        assert watched.replica.client.hlen(keyspace.blocks(BASE)) == len(KEYS) + 1
        eventually(lambda: _blocks_seen_by(client) == len(KEYS) + 1, seconds=30)


def _blocks_seen_by(client: redis.Redis) -> int:
    with suppress(redis.ConnectionError):  # until the Sentinels agree
        return client.hlen(keyspace.blocks(BASE))
    return 0
