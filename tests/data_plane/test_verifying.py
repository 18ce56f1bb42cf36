"""An index that comes back from an earlier time serves nothing that it cannot vouch for (DESIGN 4.1)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from apps.live.verification import verification
from kvcm_platform.core.errors import DomainError
from kvcm_platform.index import keyspace
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.verifying import ShardCheck
from kvcm_platform.storage import files, marker
from tests.support.copies import tiers
from tests.support.data_plane import DataPlane, data_plane, group, instance, own, storage
from tests.support.objects import put_objects
from tests.support.valkey import ValkeyServer, valkey_server

BLOCK = 4096
"""Bytes of a block: a file system gives space back in pages."""
KEYS = list(range(1, 1301))
KEPT = 1000
"""The blocks behind are removed after the copy was made."""


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as running:
        yield running


@asynccontextmanager
async def process(server: ValkeyServer, *entries) -> AsyncIterator[DataPlane]:
    client = server.client()
    async with data_plane(server.url, client, *entries) as plane:
        yield plane
    client.close()


@pytest_asyncio.fixture(params=[1, 3], ids=["shards1", "shards3"])
async def plane(request, server, tmp_path) -> AsyncIterator[DataPlane]:
    """A process that stamped the index; every block has its object."""
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    model = instance(specs=[("tp0", BLOCK)], shards=request.param)
    async with process(server, storage(tmp_path / "nfs"), group(), model) as plane:
        await plane.index.connection.stamp()
        started = await plane.write(KEYS)
        put_objects(started.locations)
        plane.started = started
        yield plane


async def until_it_answers(plane: DataPlane) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                return await plane.index.connection.learn_clock()
            except Exception:  # noqa: BLE001
                await asyncio.sleep(0.02)


async def restart(server: ValkeyServer, plane: DataPlane, change: Callable[[], None] = lambda: None) -> None:
    plane.client.execute_command("WAITAOF", 1, 0, 3000)
    server.kill()
    change()
    await asyncio.to_thread(server.restart)
    await until_it_answers(plane)


async def roll_back(server: ValkeyServer, plane: DataPlane, since_the_copy: Callable) -> None:
    """The server comes back with a copy of its files of ten seconds before its end."""
    plane.client.set(keyspace.ALIVE, int(plane.client.get(keyspace.ALIVE)) - 10_000)
    plane.client.execute_command("WAITAOF", 1, 0, 3000)
    copy = server.directory.with_name(server.directory.name + "-copy")
    shutil.copytree(server.directory, copy, ignore=shutil.ignore_patterns("*.sock"))

    def replace() -> None:
        shutil.rmtree(server.directory / "appendonlydir")
        shutil.move(copy / "appendonlydir", server.directory)
        shutil.rmtree(copy)

    await plane.index.connection.stamp()
    await since_the_copy()
    await restart(server, plane, replace)


async def delete_the_last(plane: DataPlane) -> None:
    model = plane.mirror.current.instances["model-a"]
    await plane.index.remove(model, KEYS[KEPT:], 0)
    while (await plane.duties()).deletions.deleted:
        pass


async def test_a_restart_with_the_servers_own_log_is_no_doubt(plane, server):
    await restart(server, plane)
    assert (own(plane).life.doubt, own(plane).life.is_undecided) == (0, False)
    assert len(await plane.match(KEYS)) == len(KEYS)
    assert verification(plane.client) == ""


async def test_an_older_file_is_checked_before_it_is_served(plane, server):
    await roll_back(server, plane, lambda: delete_the_last(plane))
    for _ in range(2):
        assert await plane.match(KEYS) == []
        again = await plane.start(KEYS)
        assert again.locations == []  # nobody writes what is there: it exists, though it is not served
    async with process(server) as other:  # one that starts meanwhile knows it too
        assert await other.match(KEYS) == []
        assert "being checked. Until then blocks are misses." in verification(plane.client)
        report = await plane.duties()
        assert (report.lost, report.failures) == (len(KEYS) - KEPT, 0)
        for one in (plane, other):
            assert len(await one.match(KEYS)) == KEPT
    assert verification(plane.client) == ""
    assert not plane.client.exists(keyspace.VERIFYING)
    # What was lost goes the way of all removals; then it can be written again.
    for shard in range(plane.mirror.current.instances["model-a"].shards):
        base = keyspace.instance(0xABC, shard)
        for member in plane.client.zrange(keyspace.pending_due(base), 0, -1):
            plane.client.zadd(keyspace.pending_due(base), {member: 1})
    while (await plane.duties()).deletions.deleted:
        pass
    assert len((await plane.write(KEYS)).locations) == len(KEYS) - KEPT
    count = await plane.recount()
    assert (count.used, count.has_drift) == (len(KEYS) * BLOCK, False)


async def test_a_check_goes_on_where_another_run_stopped(plane, server, monkeypatch):
    await roll_back(server, plane, lambda: delete_the_last(plane))
    looked_at = []
    real = files.has_data

    def counting(path: str, offset: int, size: int) -> bool:
        looked_at.append((path, offset))
        return real(path, offset, size)

    monkeypatch.setattr(files, "has_data", counting)
    with monkeypatch.context() as patch:
        patch.setattr("kvcm_platform.duties.verify.ShardCheck.run", stopped_after_a_page())
        assert (await plane.duties()).failures == 1
    assert 0 < len(looked_at) < len(KEYS)
    assert await plane.match(KEYS) == []
    await plane.duties()
    assert len(await plane.match(KEYS)) == KEPT
    assert len(looked_at) < len(KEYS) * 1.5  # what was behind was not looked at again


def stopped_after_a_page() -> Callable:
    run = ShardCheck.run

    class Stopped(Exception):
        pass

    async def stopped(self, intact, deadline, pause):
        async def stop() -> None:
            raise Stopped

        return await run(self, intact, deadline, stop)

    return stopped


async def test_a_storage_that_cannot_be_asked_keeps_its_blocks_hidden(plane, server, tmp_path):
    await roll_back(server, plane, lambda: delete_the_last(plane))
    os.rename(tmp_path / "nfs", tmp_path / "away")
    assert (await plane.duties()).lost == 0
    progress = json.loads(plane.client.hget(keyspace.VERIFYING, "progress"))
    assert progress["left"] == progress["shards"]
    assert "is the storage mounted?" in verification(plane.client)
    assert await plane.match(KEYS) == []
    os.rename(tmp_path / "away", tmp_path / "nfs")
    assert (await plane.duties()).lost == len(KEYS) - KEPT
    assert len(await plane.match(KEYS)) == KEPT


async def test_instances_that_come_later_are_served_at_once(plane, server):
    await roll_back(server, plane, lambda: delete_the_last(plane))
    plane.publish(9, instance("model-b", 0xB0B, specs=[("tp0", BLOCK)]))
    await plane.mirror.refresh()
    await plane.write([1, 2, 3], "model-b")
    assert len(await plane.match([1, 2, 3], instance_id="model-b")) == 3
    assert await plane.match(KEYS) == []


async def test_who_remembers_nothing_waits_for_one_who_does(plane, server):
    """After a restart of everything only the database knows whether the index is complete."""
    stamps = dict(own(plane).life.seen)
    own(plane).life.seen.clear()
    await restart(server, plane)
    assert own(plane).life.is_undecided
    assert await plane.match(KEYS) == []
    assert "waits for control" in verification(plane.client)
    stamp = plane.client.get(keyspace.ALIVE)
    await plane.index.connection.stamp()
    assert plane.client.get(keyspace.ALIVE) == stamp  # what is judged by is left alone
    control = connection_to(server.url)
    control.life.remember(stamps)
    control.life.is_authority = True
    await control.connect()
    assert not control.life.is_undecided
    await control.close()
    await plane.index.connection.stamp()
    assert len(await plane.match(KEYS)) == len(KEYS)
    assert int(plane.client.get(keyspace.ALIVE)) > int(stamp)


async def test_a_check_that_is_due_survives_the_next_restart(plane, server):
    await roll_back(server, plane, lambda: delete_the_last(plane))
    await plane.index.connection.stamp()
    await restart(server, plane)
    assert own(plane).life.doubt > 0
    assert await plane.match(KEYS) == []
    await plane.duties()
    assert len(await plane.match(KEYS)) == KEPT


async def test_a_write_in_flight_ends_well(plane, server):
    began = await plane.start([70_001, 70_002])
    put_objects(began.locations)
    await roll_back(server, plane, lambda: delete_the_last(plane))
    await plane.finish(began, 2)
    assert await plane.match([70_001, 70_002]) == []  # hidden like the rest of its shard
    await plane.duties()
    assert len(await plane.match([70_001, 70_002])) == 2
    with pytest.raises(DomainError):
        await plane.finish(began, 2)


def test_data_and_holes(tmp_path):
    path = tmp_path / "slots"
    with open(path, "wb") as file:
        file.truncate(4 * BLOCK)
        for slot in (0, 2):
            file.seek(slot * BLOCK)
            file.write(b"\x01" * BLOCK)
    assert [files.has_data(str(path), slot * BLOCK, BLOCK) for slot in range(6)] == [
        True,
        False,
        True,
        False,
        False,
        False,
    ]
    files.punch(str(path), 2 * BLOCK, BLOCK)
    assert not files.has_data(str(path), 2 * BLOCK, BLOCK)
    assert not files.has_data(str(tmp_path / "none"), 0, BLOCK)


@pytest.mark.parametrize("shards", [1, 3])
async def test_nothing_is_copied_of_what_is_in_doubt(server, tmp_path, shards):
    """The slot of a block that was deleted since reads as zeros: its copy would be served as the block."""
    client, keys = server.client(), list(range(1, 65))
    async with tiers(server.url, client, tmp_path, shards, specs=[("tp0", BLOCK)]) as two:
        await two.plane.index.connection.stamp()
        await two.write(keys)
        await roll_back(server, two.plane, lambda: two.forget_source(keys[::2]))
        await two.round(two.request())
        await two.plane.duties()
        assert own(two.plane).life.doubt
        await own(two.plane).learn_verdict()
        assert await two.read(keys) == {"fast": len(keys) // 2}
        await two.round(two.request("b"))
        assert await two.read(keys) == {"slow": len(keys) // 2}
    client.close()
