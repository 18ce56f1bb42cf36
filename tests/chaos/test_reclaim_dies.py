"""kill -9 at random points of fifty reclaims while engines write: nothing is lost, leaked or miscounted."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import keyspace, registry
from kvcm_platform.index.shards import shards_of
from tests.chaos.test_kill_nine import client_of, kill_and_await
from tests.support.platform_process import ROOT, PlatformProcess, short_data_dir, wait_for
from tests.support.replays import generated_trace, recount, replay_command
from tests.support.rest import Rest, admin_of
from tests.support.used_blocks import live_slots, slots_with_data, used

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(2400)]

RECLAIMS = 50
VICTIMS = ("worker", "worker", "valkey", "beat", "metadata-1", "metadata-2")
"""The worker reclaims and deletes: it dies twice as often."""
NAME = "eaten"
BLOCK, CAPACITY, HIGH, LOW = 4096, 3000, 0.8, 0.6
SECOND_PASS = b"g"
"""Flag of a deletion that was carried out and is repeated after the longest write timeout."""


@pytest.fixture
def platform() -> Iterator[PlatformProcess]:
    with short_data_dir() as folder:
        process = PlatformProcess(
            ["manage.py", "up"], folder, KVCM_METADATA_WORKERS="2", KVCM_ADMIN_PASSWORD="the first password"
        )
        try:
            process.wait_until_ready(120)
            yield process
        finally:
            process.end()


@contextmanager
def writing(platform: PlatformProcess, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Engines that write and read real blocks until the block ends: the trace is longer than the test."""
    trace = folder / "trace.jsonl"
    generated_trace(trace, requests=100_000)
    options = ("--group", NAME, "--instance", NAME, "--engines", "4", "--with-data", "--speed", "1")
    with (folder / "replay.log").open("w") as log:
        replaying = subprocess.Popen(
            replay_command(platform, trace, *options, "--block-bytes", str(BLOCK)),
            cwd=ROOT,
            env=platform.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            yield replaying
        finally:
            replaying.kill()
            replaying.wait(30)


def patiently(call: Any, *args: Any) -> Any:
    """The answer of a call of REST, once Redis is back; a request may be handed in twice."""

    def answer() -> Any:
        try:
            return [call(*args)]
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return None

    (found,) = wait_for(answer, 120, f"REST answers {args[0]}")  # type: ignore[misc]
    return found


def all_runs(rest: Rest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = patiently(
            rest, f"capacity/reclaim-runs/?instance_group={NAME}&page_size=200&page={len(found) // 200 + 1}"
        )
        found += page["results"]
        if not page["next"]:
            return found


def waiting(client: redis.Redis, entry: InstanceEntry) -> int:
    """Open write sessions, and deletions that were not carried out yet."""
    found = 0
    for shard in shards_of(entry):
        found += client.hlen(keyspace.sessions(shard.base))
        values = client.hvals(keyspace.pending(shard.base))
        found += sum(value[:1] != SECOND_PASS for value in values)
    return found


def test_fifty_reclaims_with_deaths(platform: PlatformProcess, tmp_path: Path) -> None:
    rest, rng = admin_of(platform, "chaos"), random.Random(4711)
    rest(
        "instance-groups/",
        {
            "name": NAME,
            "storage_candidates": ["nfs_01"],
            "quota": {"capacity_bytes": CAPACITY * BLOCK},
            "reclaim": {"used_ratio": HIGH, "low_watermark_ratio": LOW, "delay_before_delete_ms": 1000},
        },
    )
    deaths: list[str] = []
    asked: list[str] = []
    client = client_of(platform)
    with writing(platform, tmp_path) as replaying:
        wait_for(lambda: NAME in registry.read(client).instances, 60, "the engines are registered")
        entry = registry.read(client).instances[NAME]
        for _ in range(RECLAIMS):
            wait_for(lambda: held(platform, entry) > CAPACITY * BLOCK // 5, 120, "there is something to take")
            percent = rng.choice([1, 10, 40, 100])
            run = patiently(rest, "capacity/reclaim-runs/", {"instance_group": NAME, "percent": percent})
            asked.append(run["id"])
            time.sleep(rng.uniform(0.0, 1.2))
            deaths.append(rng.choice(VICTIMS))
            kill_and_await(platform, deaths[-1])
            assert replaying.poll() is None, (tmp_path / "replay.log").read_text()[-2000:]
        os.kill(replaying.pid, 15)
        output, _ = replaying.communicate(timeout=120)
    client = client_of(platform)
    wait_for(lambda: waiting(client, entry) == 0, 180, "all deletions are carried out")
    for key in (keyspace.RECLAIM_REQUESTS, keyspace.RECLAIM_OPEN, keyspace.RECLAIM_SETTLING):
        wait_for(lambda key=key: client.hlen(key) == 0, 60, f"{key} is empty")

    for group in recount(platform):
        assert group["drift"] == {}
        assert group["used"] == group["recounted"]
        assert group["reserved"] == 0
    on_disk = slots_with_data(platform.data_dir / "nfs_01" / NAME, BLOCK)
    live = live_slots(client, entry)
    assert on_disk == live, f"{len(on_disk - live)} slots nobody knows of, {len(live - on_disk)} without data"
    assert len(live) * BLOCK == used(client, entry).total

    runs = {run["id"]: run for run in all_runs(rest)}
    assert set(asked) <= set(runs)
    for run in runs.values():
        assert run["state"] in ("done", "failed"), run
        assert run["freed_blocks"] + run["failed_blocks"] == run["chosen_blocks"], run
    told = json.loads(output) if output.strip() else {}
    figures = {name: deaths.count(name) for name in dict.fromkeys(VICTIMS)}
    print(json.dumps({"deaths": figures, "runs": len(runs), "live": len(live), "replay": told}, indent=1))
    assert told.get("bytes_wrong", 0) == 0


def held(platform: PlatformProcess, entry: InstanceEntry) -> int:
    """Live bytes; none while Redis is away."""
    try:
        return used(client_of(platform), entry).live
    except redis.RedisError:
        return 0
