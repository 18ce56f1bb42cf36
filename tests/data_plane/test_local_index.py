"""The index in the metadata process: what the suites that run over both kinds of index do not show."""

from __future__ import annotations

import errno
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from apps.cache_index.services import index_recount
from kvcm_platform import index as index_package
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties.run import duties_run
from kvcm_platform.duties.session import index_session
from kvcm_platform.index import keyspace, leaving, registry, stats
from kvcm_platform.index.embedded import memory, snapshot
from kvcm_platform.index.gone import gone_of, gone_recent
from kvcm_platform.index.homecoming import take_memory_back
from kvcm_platform.index.local import residents
from kvcm_platform.index.local.index import LocalIndex
from kvcm_platform.index.local.server import FUNCTIONS, LEASE_FUNCTIONS
from kvcm_platform.index.shards import shards_of
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, storage
from tests.support.local_client import LocalClient, local_client
from tests.support.pools import figures, pool
from tests.support.valkey import ValkeyServer

LIVES = {"kvcm_generation", "kvcm_judged", "kvcm_alive", "kvcm_checked", "kvcm_doubt_end"}
"""An index in the process begins and ends with it: nobody else could have changed it."""
DAMAGE = {
    *("kvcm_pulse", "kvcm_mend", "kvcm_mend_begin", "kvcm_mend_runs", "kvcm_mend_pending"),
    *("kvcm_mend_deadlines", "kvcm_mend_usage", "kvcm_mend_reservations"),
}
"""It loses no single keys: nobody evicts them."""
OF_REDIS = {"kvcm_version", "kvcm_publish", "kvcm_lease_take", "kvcm_pool_home", *LIVES, *DAMAGE}
KEYS = list(range(1, 31))
BASE = keyspace.instance(0xABC, 0)
SIZE = 1024


def test_every_function_of_the_server_has_a_twin():
    """But for what concerns Redis itself, the registry, which stays there, and MetaIndex."""
    sources = Path(index_package.__file__).parent.glob("lua/*.lua")
    names = {name for path in sources for name in re.findall(r"^register\('(\w+)'", path.read_text(), re.M)}
    here = {name for name in names if not name.startswith("kvcm_meta_")} - OF_REDIS
    assert here == FUNCTIONS.keys() | LEASE_FUNCTIONS


@dataclass
class Home:
    """A process that keeps the index, and the Redis beside it."""

    plane: DataPlane
    index: LocalIndex
    redis: redis.Redis
    url: str


@pytest.fixture
async def home(empty_valkey: ValkeyServer, tmp_path: Path) -> AsyncIterator[Home]:
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    remote = empty_valkey.client()
    entries = (storage(tmp_path / "nfs"), group(), instance())
    registry.publish(remote, version=1, changed=entries)
    async with (
        local_client("local", tmp_path, empty_valkey.socket) as client,
        data_plane(empty_valkey.url, client, make_index=local_index) as plane,
    ):
        assert isinstance(plane.index, LocalIndex)
        yield Home(plane, plane.index, remote, empty_valkey.url)
    remote.close()


def local_index(connection, mirror) -> LocalIndex:
    return LocalIndex(connection, mirror, "node-1")


async def test_limits_follow_the_registry(home):
    """Nobody publishes them to this process: it takes them from its copy of the registry."""
    await home.plane.write(KEYS[:3])
    registry.publish(home.redis, version=2, changed=(group(quota=Quota(5 * SIZE)),))
    await home.plane.mirror.refresh()
    with pytest.raises(Exception, match="would pass its quota"):
        await home.plane.start(KEYS[3:6])
    await home.plane.write(KEYS[3:5])
    # A registry that was set up anew counts from the beginning.
    home.redis.flushall()
    entries = (*home.plane.mirror.current.storages.values(), group(), instance())
    registry.publish(home.redis, version=1, changed=entries)
    home.plane.mirror._connects = -1
    await home.plane.mirror.refresh()
    await home.plane.write(KEYS)


async def test_figures_reach_redis_and_stay_when_nothing_changes(home):
    await home.plane.write(KEYS)
    await home.plane.start([100, 101])
    await home.index.residents.show()
    usage = stats.instance_usages(home.redis, [instance()])["model-a"]
    assert (usage.blocks, usage.used_bytes, usage.writing_blocks) == (32, 32 * SIZE, 2)
    assert usage.open_write_sessions == stats.open_sessions(home.redis, [instance()]) == 1
    assert stats.group_usages(home.redis, [1])[1].used_bytes == 32 * SIZE
    before = home.redis.hgetall(BASE)
    await home.index.residents.show()
    assert home.redis.hgetall(BASE) == before
    await home.plane.service.trim_cache("model-a", 2, 0, 0)
    await home.index.residents.show()
    assert stats.instance_usages(home.redis, [instance()])["model-a"].used_bytes == 0


async def test_why_blocks_left_is_told_in_redis(home):
    await home.plane.write(KEYS)
    await home.plane.service.remove_cache("model-a", Blocks(KEYS[:10], ()), None)
    assert gone_of(home.redis, instance(), 3, 9) == []
    for _ in range(2):  # once, whoever asks for figures again
        await home.index.residents.show()
        assert [one.reason for one in gone_of(home.redis, instance(), 3, 9)] == ["remove"]
    await home.plane.service.remove_cache("model-a", Blocks(KEYS[10:12], ()), None)
    await home.index.residents.show()
    assert sorted(one.key for one in gone_recent(home.redis, instance(), 100)) == KEYS[:12]
    (shard,) = shards_of(instance())
    await home.index.residents.gone.forget_old([shard], 3_600_000)
    assert len(gone_recent(home.redis, instance(), 100)) == 12
    await home.index.residents.gone.drop(shard)
    assert gone_recent(home.redis, instance(), 100) == []


async def test_the_tasks_of_control_leave_these_instances_alone(home):
    await home.plane.write(KEYS)
    await home.index.residents.show()
    home.redis.execute_command(*leaving.leave_command(instance()))
    home.redis.hset(keyspace.LEAVING_SINCE, instance().number, "0:0")
    before = {name: home.redis.dump(name) for name in home.redis.scan_iter("{*")}
    async with index_session(home.url) as session:
        assert session.instances == []
        report = await duties_run(session)
    assert (report.sessions, report.pushes, report.cleared, report.failures) == (0, 0, 0, 0)
    assert {name: home.redis.dump(name) for name in home.redis.scan_iter("{*")} == before
    assert home.redis.hlen(keyspace.LEAVING) == 1
    assert (await index_recount(home.url, repair=True)).groups == []
    assert home.redis.hgetall(keyspace.group_vectors(keyspace.group(1))) != {}


async def test_an_instance_is_known_in_redis_before_its_first_block(home):
    """A process that dies right after the first block leaves a trace for the tasks of control."""
    execute = home.index.server.execute

    def dies(*command):
        if command[:2] == ("FCALL", "kvcm_write"):
            raise OSError("died")
        return execute(*command)

    home.index.server.execute = dies
    with pytest.raises(Exception, match="died"):
        await home.plane.start(KEYS)
    assert home.redis.hget(BASE, "home") == b"node-1"


async def test_removed_instances_go_when_they_are_listed_or_long_absent(home, monkeypatch):
    await home.plane.write(KEYS)
    guests, current = home.index.residents, home.plane.mirror.current
    assert await guests.removed(current) == []
    # An empty or older registry says nothing: Redis may have been emptied.
    monkeypatch.setattr(residents, "ABSENT_SECONDS", -1.0)
    assert await guests.removed(type(current)()) == []
    newer = type(current)(version=current.version + 1)
    assert [entry.number for entry in await guests.removed(newer)] == [0xABC]
    monkeypatch.undo()
    assert await guests.removed(newer) == []
    home.redis.execute_command(*leaving.leave_command(instance()))
    assert [entry.number for entry in await guests.removed(current)] == [0xABC]


async def test_the_last_of_a_removed_instance(home, monkeypatch):
    await home.plane.write(KEYS)
    await home.index.residents.show()
    home.redis.execute_command(*leaving.leave_command(instance()))
    guests = home.index.residents
    (entry,) = await guests.removed(home.plane.mirror.current)
    assert not guests.is_over(entry)
    monkeypatch.setattr(leaving, "STAY_MS", -1)
    assert not guests.is_over(entry)
    for shard_key in keyspace.all_of_instance(BASE):
        home.index.server.execute("DEL", shard_key)
    assert guests.is_over(entry)
    await guests.forget(entry)
    assert list(guests) == []
    assert list(home.redis.scan_iter("{abc:*")) == []
    assert home.redis.hlen(keyspace.LEAVING) == home.redis.hlen(keyspace.LEAVING_SINCE) == 0
    assert stats.group_usages(home.redis, [1])[1].used_bytes == 0


@pytest.fixture
async def kept(empty_valkey: ValkeyServer, tmp_path: Path) -> AsyncIterator[Home]:
    """One whose blocks are in memory, with a snapshot beside them."""
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    remote = empty_valkey.client()
    registry.publish(remote, version=1, changed=(storage(tmp_path / "nfs", slots=4), group(), instance()))
    async with (
        local_client("local", tmp_path, empty_valkey.socket, tmp_path / "blocks") as client,
        data_plane(empty_valkey.url, client, make_index=local_index) as plane,
    ):
        yield Home(plane, plane.index, remote, empty_valkey.url)
    remote.close()


async def write_one_file(home: Home, keys: list[int]) -> Path:
    """A file of four slots, with bytes in each."""
    await home.plane.write(keys)
    (path,) = {Path(parse_uri(one.uri).path) for one in await home.plane.match(keys)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * len(keys) * SIZE)
    return path


async def test_an_object_goes_only_when_no_snapshot_serves_its_block(kept, empty_valkey, tmp_path):
    """After a crash the process begins with the snapshot: a block in it must have its bytes."""
    path = await write_one_file(kept, KEYS[:4])
    await kept.index.server.keys.store.sync()
    await kept.plane.service.remove_cache("model-a", Blocks(KEYS[:4], ()), None)
    kept.plane.make_due()
    report = await kept.plane.duties()
    assert (report.deletions.deleted, report.failures) == (4, 0)
    assert not path.exists()
    shutil.copy(tmp_path / "blocks", tmp_path / "after a crash")
    async with (
        local_client("local", tmp_path, empty_valkey.socket, tmp_path / "after a crash") as client,
        data_plane(empty_valkey.url, client, make_index=local_index) as restarted,
    ):
        assert await restarted.match(KEYS[:4]) == []
        assert "SERVING" not in await restarted.statuses(KEYS[:4])


async def test_without_a_snapshot_deletions_wait_and_then_starts_are_refused(kept, monkeypatch):
    path = await write_one_file(kept, KEYS[:4])
    await kept.plane.write([100])
    await kept.plane.service.remove_cache("model-a", Blocks(KEYS[:4], ()), None)
    kept.plane.make_due()

    def full(path, items):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(snapshot, "save", full)
    report = await kept.plane.duties()
    assert (report.deletions.deleted, report.failures) == (0, 1)
    assert path.exists()
    opened = await kept.plane.start([101])
    monkeypatch.setattr(memory, "REFUSE_AFTER_SECONDS", 0.0)
    for keys in ([102], [100]):
        with pytest.raises(DomainError, match="snapshot cannot be written: .*No space left") as caught:
            await kept.plane.start(keys)
        assert caught.value.code is Code.NOT_READY
    await kept.plane.finish(opened, 1)
    assert len(await kept.plane.match([100, 101])) == 2
    monkeypatch.undo()
    assert (await kept.plane.duties()).deletions.deleted == 4
    assert not path.exists()
    await kept.plane.write([102])


async def test_a_stopped_index_can_be_recounted(empty_valkey, tmp_path):
    remote, folder = empty_valkey.client(), tmp_path / "index"
    registry.publish(remote, version=1, changed=(storage(tmp_path / "nfs"), group(), instance()))
    async with local_client("rocksdb", folder, empty_valkey.socket) as client:
        publish_limits(client)
        async with data_plane(empty_valkey.url, client) as plane:
            await plane.write(KEYS)
            client.hincrby(BASE, next(f for f in client.hgetall(BASE) if f.startswith(b"b:")), 5)
        with pytest.raises(DomainError, match="belongs to one process"):
            await index_recount(empty_valkey.url, repair=False, rocksdb_folder=folder)
    (found,) = (await index_recount(empty_valkey.url, repair=False, rocksdb_folder=folder)).groups
    assert list(found.drift.values()) == [{"bytes": -5, "blocks": 0}]
    await index_recount(empty_valkey.url, repair=True, rocksdb_folder=folder)
    (found,) = (await index_recount(empty_valkey.url, repair=False, rocksdb_folder=folder)).groups
    assert (found.has_drift, found.used, found.recounted) == (False, 30 * SIZE, 30 * SIZE)
    remote.close()


@pytest.mark.timeout(600)
async def test_killed_in_the_middle_of_a_batch_an_index_in_rocksdb_stays_whole(empty_valkey, tmp_path):
    """Usage equals a recount at once; after the sweeps there is neither session nor drift."""
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    remote = empty_valkey.client()
    entries = (storage(tmp_path / "nfs"), group(), instance())
    registry.publish(remote, version=1, changed=entries)
    choice, folder = random.Random(7), tmp_path / "index"
    async with local_client("rocksdb", folder, empty_valkey.socket) as client:
        publish_limits(client)
    for seed in range(6):
        worker = subprocess.run(
            [sys.executable, "-m", "tests.support.local_index_worker", empty_valkey.url, folder, str(seed)]
            + [str(choice.randrange(2000, 12_000))],
            check=False,
        )
        assert worker.returncode == -signal.SIGKILL
        async with (
            local_client("rocksdb", folder, empty_valkey.socket) as client,
            data_plane(empty_valkey.url, client) as plane,
        ):
            assert not (await plane.recount()).has_drift
            end_sessions(client)
            for _ in range(3):
                plane.make_due()
                await plane.duties()
            count = await plane.recount()
            assert (count.has_drift, count.reserved) == (False, 0)
            assert client.zcard(keyspace.session_deadlines(BASE)) == 0
            states = set(await plane.statuses(list(range(2700))))
            assert states <= {"SERVING", "NOT_FOUND"}
            assert count.used == SIZE * len([k for k in await plane.match(range(2700), 1) if k.uri])
    remote.close()


def publish_limits(client: LocalClient) -> None:
    client.execute_command(*registry.limits_command(group(), 1))


def end_sessions(client: LocalClient) -> None:
    """Every open session's deadline lies in the past."""
    for session in client.zrange(keyspace.session_deadlines(BASE), 0, -1):
        header = client.hget(keyspace.sessions(BASE), session)
        client.hset(
            keyspace.sessions(BASE), session, header[:1] + (1).to_bytes(6) + (1).to_bytes(6) + header[13:]
        )
        client.zadd(keyspace.session_deadlines(BASE), {session: 1})
    for field in client.zrange(keyspace.group_reservation_deadlines(keyspace.group(1)), 0, -1):
        client.zadd(keyspace.group_reservation_deadlines(keyspace.group(1)), {field: 1})


async def publish_pool(home: Home) -> None:
    entries = (pool(), group(storage_candidates=("pool_01", "nfs_01")))
    registry.publish(home.redis, version=2, changed=entries)
    await home.plane.mirror.refresh()


async def test_one_index_gives_out_the_memory_of_a_pool(home):
    await publish_pool(home)
    started = await home.plane.write(KEYS)
    assert found(started.locations[0]).uri.startswith("pace://")
    assert figures(home.plane.client).ranges == len(KEYS)
    # What is taken is on record here; in Redis is only who gives it out.
    assert figures(home.redis).ranges == 0
    assert home.redis.hget(keyspace.storage(101), "p:home") == b"node-1"
    registry.publish(home.redis, version=3, changed=[instance("in-redis", 0xDEF)])
    async with data_plane(home.url, home.redis) as other:
        elsewhere = await other.write(KEYS, "in-redis")
        assert found(elsewhere.locations[0]).uri.startswith("file://")
        assert await take_memory_back(other.index, other.mirror.current.storages.values(), "node-2") == 0
        assert await take_memory_back(other.index, other.mirror.current.storages.values(), "node-1") == 1
        elsewhere = await other.write([key + 100 for key in KEYS], "in-redis")
        assert found(elsewhere.locations[0]).uri.startswith("pace://")


async def test_memory_that_another_index_has_given_out_is_left_alone(home):
    await publish_pool(home)
    registry.publish(home.redis, version=3, changed=[instance("in-redis", 0xDEF)])
    async with data_plane(home.url, home.redis) as other:
        await other.write(KEYS, "in-redis")
    started = await home.plane.write(KEYS)
    assert found(started.locations[0]).uri.startswith("file://")
    assert figures(home.redis).ranges == len(KEYS)
