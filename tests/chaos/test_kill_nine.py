"""kill -9 of each process in turn while engines replay: nothing is lost, leaked or wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from kvcm_platform.index import keyspace, registry
from kvcm_platform.settings.env import Env
from tests.support.platform_process import ROOT, PlatformProcess, short_data_dir, wait_for
from tests.support.replays import generated_trace, recount, replay, replay_command

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(900)]

VICTIMS = ["metadata-1", "control", "beat", "worker", "web", "valkey", "metadata-2"]


@pytest.fixture
def platform() -> Iterator[PlatformProcess]:
    with short_data_dir() as folder:
        process = PlatformProcess(["manage.py", "up"], folder, KVCM_METADATA_WORKERS="2")
        try:
            process.wait_until_ready(120)
            yield process
        finally:
            process.end()


def client_of(platform: PlatformProcess) -> redis.Redis:
    return redis.Redis.from_url(Env(platform.environment).redis_url)


def children(platform: PlatformProcess) -> dict[str, dict]:
    """State of each supervised process; empty while Redis is away."""
    try:
        return {row["name"]: row for row in map(json.loads, client_of(platform).hvals(keyspace.SUPERVISOR))}
    except redis.RedisError:
        return {}


def pid_of(platform: PlatformProcess, name: str) -> int:
    row = wait_for(lambda: children(platform).get(name), 30, f"{name} is known")
    return row["pid"]  # type: ignore[index]


def kill_and_await(platform: PlatformProcess, name: str) -> None:
    old = pid_of(platform, name)
    os.kill(old, signal.SIGKILL)

    def is_back() -> bool:
        row = children(platform).get(name, {})
        return row.get("pid") not in (None, old) and row.get("state") == "ready"

    wait_for(is_back, 60, f"{name} is back")


def overdue_sessions(platform: PlatformProcess) -> int:
    """Write sessions that are past their deadline by more than the two seconds the sweep may take."""
    client = client_of(platform)
    seconds, micros = client.time()
    latest = seconds * 1000 + micros // 1000 - 2000
    return sum(
        client.zcount(keyspace.session_deadlines(keyspace.instance(entry.number, 0)), "-inf", latest)
        for entry in registry.read(client).instances.values()
    )


def test_every_process_dies_once_during_a_replay(platform: PlatformProcess, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    requests, blocks, _ = generated_trace(trace, requests=6000)
    # Slow enough to last for all the deaths: the trace spans 60 s.
    options = (
        "--instance",
        "chaos",
        "--engines",
        "4",
        "--with-data",
        "--block-bytes",
        "4096",
        "--speed",
        "1",
    )
    replaying = subprocess.Popen(
        replay_command(platform, trace, *options),
        cwd=ROOT,
        env=platform.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for name in VICTIMS:
            kill_and_await(platform, name)
            assert replaying.poll() is None, "the replay ended before the last death"
        output, errors = replaying.communicate(timeout=300)
    finally:
        if replaying.poll() is None:
            replaying.kill()
    assert replaying.returncode == 0, errors
    done = json.loads(output)
    assert (done["requests"], done["blocks"], done["bytes_wrong"]) == (requests, blocks, 0)
    # Only calls in flight may fail: at most a few per engine and death.
    assert done["errors"] <= 4 * 4 * len(VICTIMS)

    wait_for(lambda: overdue_sessions(platform) == 0, 45, "no session is past its deadline")
    deadline = time.monotonic() + 60
    while client_of(platform).hlen(keyspace.sessions(keyspace.instance(number_of(platform, "chaos"), 0))):
        assert time.monotonic() < deadline, "sessions that nobody will finish are still open"
        time.sleep(0.2)
    for group in recount(platform):
        assert group["drift"] == {}
        assert group["used"] == group["recounted"]
        assert group["reserved"] == 0
    again = replay(
        platform, trace, "--instance", "chaos", "--engines", "4", "--with-data", "--block-bytes", "4096"
    )
    assert (again["errors"], again["bytes_wrong"]) == (0, 0)


def number_of(platform: PlatformProcess, instance_id: str) -> int:
    return registry.read(client_of(platform)).instances[instance_id].number
