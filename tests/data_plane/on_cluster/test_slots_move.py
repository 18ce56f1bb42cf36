"""Slots that move between nodes, and nodes that come, while the index is in use."""

from __future__ import annotations

import asyncio

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index import keyspace
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import IndexUnavailable
from kvcm_platform.index.slots import key_of, slot_of
from tests.support.data_plane import data_plane, group, instance, own, storage
from tests.support.eventually import eventually_async
from tests.support.valkey_cluster import Node, ValkeyCluster, move_slot, valkey_cluster

BASE = keyspace.instance(0xABC, 0)
KEYS = list(range(1, 601))


def other_than(cluster: ValkeyCluster, node: Node) -> Node:
    return next(master for master in cluster.masters if master is not node)


@pytest.fixture
def slot_back(empty_cluster):
    """Brings the instance's slot back to where it was: the Cluster serves other tests."""
    owner = empty_cluster.owner(BASE)
    yield
    now = empty_cluster.owner(BASE)
    if now is not owner:
        move_slot(now, owner, slot_of(BASE))


async def test_instances_lie_on_different_nodes(empty_cluster, tmp_path):
    instances = [instance(f"model-{number}", 0xA00 + number) for number in range(12)]
    client = empty_cluster.client()
    entries = (storage(tmp_path), group(), *instances)
    async with data_plane(empty_cluster.url, client, *entries) as plane:
        for number, entry in enumerate(instances):
            await plane.write([1, 2, 3 + number], entry.instance_id)
        for number, entry in enumerate(instances):
            found = await plane.match([1, 2, 3 + number, 99], instance_id=entry.instance_id)
            assert len(found) == 3
        await plane.index.pusher.flush()
        assert (await plane.recount()).used == 12 * 3 * 1024
    nodes = {empty_cluster.owner(keyspace.instance(entry.number, 0)).port for entry in instances}
    assert nodes == {node.port for node in empty_cluster.masters}


async def test_answers_of_a_pipeline_come_in_the_order_of_its_commands(empty_cluster):
    connection = connection_to(empty_cluster.url)
    await connection.connect()
    names = [f"{{{number}}}" for number in range(60)]
    await connection.pipeline([("SET", name, number) for number, name in enumerate(names)])
    asked = [names[number * 7 % 60] for number in range(60)]
    assert await connection.pipeline([("GET", name) for name in asked]) == [
        name.strip("{}").encode() for name in asked
    ]
    assert await connection.pipeline([]) == []
    await connection.close()


async def test_commands_without_a_key_go_where_they_are_sent(empty_cluster):
    connection = connection_to(empty_cluster.url)
    await connection.connect()
    for number in range(10):
        base = keyspace.instance(number, 0)
        info = (await connection.pipeline([("SET", base, 1), ("INFO", "server")], at=base))[1].decode()
        assert f"tcp_port:{empty_cluster.owner(base).port}" in info
    with pytest.raises(ValueError, match="names no key"):
        await connection.call("TIME")
    await connection.close()


@pytest.mark.usefixtures("slot_back")
async def test_a_slot_moves_as_a_whole_during_traffic(plane, empty_cluster):
    """Redis 8.4 and Valkey 9 do this: no call fails, nothing is lost."""
    await plane.write(KEYS)
    owner = empty_cluster.owner(BASE)
    target = other_than(empty_cluster, owner)
    before, generation = own(plane).connects, own(plane).generation
    moved = asyncio.create_task(asyncio.to_thread(move_slot, owner, target, slot_of(BASE)))
    written, key = 0, 10_000
    while not moved.done() or written < 20:
        await plane.write([key, key + 1])
        assert len(await plane.match([key, key + 1])) == 2
        assert len(await plane.match(KEYS)) == len(KEYS)
        written, key = written + 1, key + 2
    await moved
    assert empty_cluster.owner(BASE) is target
    assert len(await plane.match(KEYS)) == len(KEYS)
    count = await plane.recount()
    assert (count.used, count.has_drift) == ((len(KEYS) + 2 * written) * 1024, False)
    # The same servers as before: their lives, and so the caches, go on.
    assert (own(plane).connects, own(plane).generation) == (before, generation)


@pytest.mark.usefixtures("slot_back")
async def test_a_slot_moves_key_by_key(plane, empty_cluster):
    """Half a shard cannot be changed: calls are refused as a whole, and nothing is done by halves."""
    await plane.write(KEYS)
    started = await plane.start([9001, 9002])
    owner = empty_cluster.owner(BASE)
    target, slot = other_than(empty_cluster, owner), slot_of(BASE)
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.id)
    owner.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    names = owner.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
    assert len(names) > 4
    for name in sorted(names):
        for call in (
            plane.finish(started, 2),
            plane.start([5001]),
            plane.service.trim_cache("model-a", 1, 0, 0),
        ):
            with pytest.raises(DomainError) as caught:
                await call
            assert caught.value.code is Code.NOT_READY
        assert len(await plane.match(KEYS)) == len(KEYS)  # a key's content is on one side or the other
        owner.client.execute_command("MIGRATE", "127.0.0.1", target.port, name, 0, 1000)
    for node in (target, *empty_cluster.masters):
        node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target.id)
    await plane.finish(started, 2)
    assert len(await plane.match(KEYS)) == len(KEYS)
    assert len(await plane.match([9001, 9002])) == 2
    count = await plane.recount()
    assert (count.used, count.has_drift) == ((len(KEYS) + 2) * 1024, False)


async def test_a_node_joins_and_takes_a_slot(tmp_path):
    """It has the functions before it gets the first slot from a client's point of view."""
    with valkey_cluster() as cluster:
        async with data_plane(cluster.url, cluster.client(), storage(tmp_path), group(), instance()) as plane:
            await plane.write(KEYS)
            generation = own(plane).generation
            joined = cluster.join()
            await asyncio.to_thread(move_slot, cluster.owner(BASE), joined, slot_of(BASE))
            await plane.write([7001])
            assert len(await plane.match(KEYS)) == len(KEYS)
            await eventually_async(lambda: own(plane).generation > generation)
            assert len(await plane.match([7001])) == 1


async def test_functions_that_got_lost_are_loaded_again(plane, empty_cluster):
    for node in empty_cluster.masters:
        node.client.function_flush()
    await plane.write([1, 2])
    assert len(await plane.match([1, 2])) == 2


async def test_servers_whose_clocks_differ_are_not_used(plane):
    """Deadlines are compared on several servers: more than a second apart they mean nothing."""
    connection = own(plane)
    one = next(iter(connection._links.values()))
    learn, ahead_ms = one.learn_clock, 1500

    async def wrong(wire):
        await learn(wire)
        one.clock_offset_ms += ahead_ms

    one.learn_clock = wrong
    try:
        with pytest.raises(IndexUnavailable, match=r"the clock of 127.0.0.1:\d+ is 1.5 s ahead"):
            await connection.learn_clock()
        with pytest.raises(DomainError, match="keep the servers' clocks right"):
            await plane.match([1])
        ahead_ms = 500
        await eventually_async(lambda: connection._slots[0] is not None)
        await plane.write([1])
        # The latest clock counts, so that nothing is due early on any server.
        assert connection.now_ms() / 1000 == pytest.approx(plane.client.time()[0] + 1, abs=1.5)
    finally:
        one.learn_clock = learn


@pytest.mark.parametrize(
    ("name", "slot"),
    # Slots as CLUSTER KEYSLOT gives them.
    [("foo", 12182), ("{user1000}.following", 3443), ("foo{}{bar}", 8363), ("foo{{bar}}zap", 4015), ("", 0)],
)
def test_slots_of_keys(name, slot):
    assert slot_of(name) == slot_of(name.encode()) == slot


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("GET", "a"), "a"),
        (("FCALL", "f", 1, "k", "x"), "k"),
        (("EVAL", "return 1", "2", "k", "l"), "k"),
        (("XREAD", "COUNT", 1, "STREAMS", "s", "0"), "s"),
    ],
)
def test_the_key_of_a_command(command, key):
    assert key_of(command) == key
