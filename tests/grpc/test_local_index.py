"""A real metadata process that keeps the index itself: kill -9, its own duties, its figures in Redis."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvcm_platform.client import BlockingMetadataClient, Connection
from kvcm_platform.core.reclaim.runs import ReclaimRequest
from kvcm_platform.core.registry import Quota, ReclaimSettings
from kvcm_platform.index import keyspace, leaving, registry, stats
from kvcm_platform.storage import marker
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.objects import write_blocks
from tests.support.platform_process import wait_for
from tests.support.valkey import ValkeyServer

SIZE = 8192
KEYS = list(range(1, 21))
ENTRY = instance(specs=[("tp0", SIZE)])


@pytest.fixture
def valkey(empty_valkey: ValkeyServer, tmp_path: Path) -> ValkeyServer:
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    client = empty_valkey.client()
    registry.publish(client, version=1, changed=(storage(tmp_path / "nfs"), group(), ENTRY))
    client.close()
    return empty_valkey


@contextmanager
def process(valkey: ValkeyServer, folder: Path, backend: str = "rocksdb") -> Iterator[MetadataProcess]:
    chosen = {"KVCM_INDEX_BACKEND": backend, "KVCM_METADATA_WORKERS": "1"}
    with metadata_process(valkey.url, folder, **chosen) as started:
        yield started


@contextmanager
def engine(started: MetadataProcess) -> Iterator[BlockingMetadataClient]:
    with BlockingMetadataClient(Connection(started.rpc, timeout_seconds=5)) as client:
        yield client


def write(client: BlockingMetadataClient, keys: list[int]) -> None:
    write_blocks(client, "model-a", keys)


def hits(client: BlockingMetadataClient, keys: list[int] = KEYS) -> int:
    return len(client.get_cache_location("model-a", keys))


def slot_files(folder: Path) -> list[Path]:
    return [p for p in (folder / "nfs").rglob("*") if p.is_file() and p.name != marker.MARKER]


def kill(started: MetadataProcess) -> None:
    os.kill(started.process.pid, signal.SIGKILL)
    started.process.wait(40)


def test_rocksdb_outlives_kill_nine_and_does_its_own_duties(valkey, tmp_path):
    redis = valkey.client()
    with process(valkey, tmp_path) as started, engine(started) as client:
        write(client, KEYS)
        silent = client.start_write("model-a", [101, 102], timeout_seconds=1)
        assert len(silent.locations) == 2
        kill(started)
    assert len(slot_files(tmp_path)) == 3
    with process(valkey, tmp_path) as started, engine(started) as client:
        assert hits(client) == len(KEYS)

        def is_writable() -> bool:
            again = client.start_write("model-a", [101, 102], timeout_seconds=30)
            client.finish_write("model-a", again.session_id, 0)
            return len(again.locations) == 2

        wait_for(is_writable, 40, "the silent engine's keys can be written again")
        client.remove("model-a", KEYS)
        assert hits(client) == 0
        wait_for(lambda: slot_files(tmp_path) == [], 40, "the files go")

        def used() -> int:
            return stats.instance_usages(redis, [ENTRY])["model-a"].used_bytes

        wait_for(lambda: used() == 0, 40, "Redis is told")
        # Redis holds figures, why blocks left, and nothing else of the instance.
        base = keyspace.instance(ENTRY.number, 0)
        held = {name.decode() for name in redis.scan_iter() if name.startswith(base.encode())}
        assert held - {keyspace.gone(base)} == {base}
    redis.close()


def test_the_figures_of_pages_are_those_of_the_process(valkey, tmp_path):
    redis = valkey.client()
    with process(valkey, tmp_path) as started, engine(started) as client:
        write(client, KEYS)
        client.start_write("model-a", [101, 102])

        def figures() -> tuple[int, int, int]:
            usage = stats.instance_usages(redis, [ENTRY])["model-a"]
            return usage.used_bytes, usage.writing_blocks, usage.open_write_sessions

        expected = (22 * SIZE, 2, 1)
        wait_for(lambda: figures() == expected, 40, "the instance's figures")
        assert stats.group_usages(redis, [1])[1].used_bytes == 22 * SIZE
        assert stats.open_sessions(redis, [ENTRY]) == 1
        client.remove("model-a", KEYS)
        wait_for(lambda: figures() == (2 * SIZE, 2, 1), 40, "the figures after the removal")
        wait_for(lambda: stats.group_usages(redis, [1])[1].used_bytes == 2 * SIZE, 40, "the group's")
    redis.close()


def test_a_snapshot_brings_the_blocks_over_an_orderly_stop(valkey, tmp_path):
    with process(valkey, tmp_path, "local") as started, engine(started) as client:
        write(client, KEYS)
    with process(valkey, tmp_path, "local") as started, engine(started) as client:
        assert hits(client) == len(KEYS)


def test_blocks_are_found_and_written_while_redis_is_away(tmp_path, valkey):
    with process(valkey, tmp_path) as started, engine(started) as client:
        write(client, KEYS[:10])
        os.kill(valkey.process.pid, signal.SIGSTOP)
        try:
            assert hits(client, KEYS[:10]) == 10
            write(client, KEYS[10:])
            assert hits(client) == len(KEYS)
        finally:
            os.kill(valkey.process.pid, signal.SIGCONT)


def test_a_removed_instance_leaves_no_file(valkey, tmp_path):
    redis = valkey.client()
    with process(valkey, tmp_path) as started, engine(started) as client:
        write(client, KEYS)
        registry.publish(redis, version=2, removed=[("instance", "model-a")])
        redis.execute_command(*leaving.leave_command(ENTRY))
        wait_for(lambda: slot_files(tmp_path) == [], 40, "the files go")
        # A late write could still come: the instance stays on the list for half a minute.
        assert redis.hlen(keyspace.LEAVING) == 1
    redis.close()


def start(folder: Path, url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "KVCM_DATA_DIR": str(folder), "KVCM_REDIS_URL": url, **variables}
    return subprocess.run(
        [sys.executable, "-m", "kvcm_platform.metadata_service"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_more_than_one_process_is_refused(valkey, tmp_path):
    two = start(tmp_path, valkey.url, KVCM_INDEX_BACKEND="rocksdb", KVCM_METADATA_WORKERS="2")
    assert two.returncode == 2
    assert "KVCM_METADATA_WORKERS=1" in two.stderr
    with process(valkey, tmp_path):
        second = start(tmp_path, valkey.url, KVCM_INDEX_BACKEND="rocksdb", KVCM_METADATA_WORKERS="1")
    assert second.returncode == 1
    assert "belongs to one process" in second.stdout + second.stderr


def test_an_instance_comes_back_to_redis_with_what_redis_holds(valkey, tmp_path):
    """Three blocks in Redis, then twenty in the process, then Redis again: the three count."""
    redis = valkey.client()
    with process(valkey, tmp_path, "redis") as started, engine(started) as client:
        write(client, [201, 202, 203])
    with process(valkey, tmp_path) as started, engine(started) as client:
        write(client, KEYS)
        wait_for(
            lambda: stats.group_usages(redis, [1])[1].used_bytes == 20 * SIZE, 10, "its figures in Redis"
        )
    second = {"KVCM_INDEX_BACKEND": "redis", "KVCM_METADATA_WORKERS": "2"}
    with (
        process(valkey, tmp_path, "redis") as started,
        metadata_process(valkey.url, tmp_path, **second),
        engine(started) as client,
    ):
        assert hits(client, [201, 202, 203]) == 3
        assert hits(client) == 0
        usage = stats.instance_usages(redis, [ENTRY])["model-a"]
        assert (usage.used_bytes, usage.blocks, usage.open_write_sessions) == (3 * SIZE, 3, 0)
        assert stats.group_usages(redis, [1])[1].used_bytes == 3 * SIZE
        assert redis.hget(keyspace.instance(ENTRY.number, 0), "home") is None
        write(client, KEYS)
        wait_for(lambda: stats.group_usages(redis, [1])[1].used_bytes == 23 * SIZE, 40, "what is written now")
        assert hits(client) == len(KEYS)
    redis.close()


@pytest.mark.parametrize("backend", ["rocksdb", "local"])
def test_a_group_over_its_mark_gives_blocks_back(valkey, tmp_path, backend):
    redis = valkey.client()
    limits = group(quota=Quota(30 * SIZE), reclaim=ReclaimSettings(used_ratio=0.8, delay_before_delete_ms=0))
    registry.publish(redis, version=2, changed=(limits,))
    with process(valkey, tmp_path, backend) as started, engine(started) as client:
        write(client, KEYS)
        write(client, list(range(101, 106)))

        def report() -> dict[str, object]:
            found = [json.loads(fields[b"d"]) for _, fields in redis.xrange(keyspace.RECLAIM_REPORTS)]
            return found[-1] if found else {}

        # 25 of 30 are above 24; 22 (and a half) are the low mark, and the older prompt loses its end.
        wait_for(lambda: report().get("state") == "done", 40, "the run is done")
        done = report()
        assert (done["trigger"], done["chosen_blocks"], done["freed_blocks"]) == ("watermark", 3, 3)
        assert hits(client) == 17
        assert hits(client, list(range(101, 106))) == 5
        wish = ReclaimRequest("00000000000000aa", "default", blocks=10)
        request = {name: getattr(wish, name) for name in ReclaimRequest.__dataclass_fields__}
        redis.hset(keyspace.RECLAIM_REQUESTS, wish.id, json.dumps(request))
        wait_for(lambda: (report()["id"], report()["state"]) == (wish.id, "done"), 40, "the request is done")
        assert hits(client) == 7
    redis.close()
