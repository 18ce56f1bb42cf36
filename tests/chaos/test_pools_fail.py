"""The agent of a memory pool hangs, and dies with its memory, amid a replay with two candidates."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failover import Failover
from tests.support.mempool import AgentHost, RunningAgent, agent_host, pool_spec
from tests.support.platform_process import PlatformProcess, short_data_dir
from tests.support.replays import recount

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(600)]

INTERVAL = 5.0
"""Seconds between the checks of a storage."""
NOTICED = INTERVAL + 2 * 3.0 + 1.0 + 2.0
"""A check that finds it away, the second look, and what the machine takes."""
CALL_SECONDS = 30.0
"""How long engines wait for an answer."""
SIZE = "512M"
"""More than all blocks of the trace: a pool that is full is another matter."""


@pytest.fixture
def host() -> Iterator[AgentHost]:
    with agent_host() as running:
        yield running


@pytest.fixture
def agent(host: AgentHost) -> RunningAgent:
    return host.start("a", SIZE)


@pytest.fixture
def failover(agent: RunningAgent, tmp_path: Path) -> Iterator[Failover]:
    with short_data_dir() as folder:
        process = PlatformProcess(["manage.py", "up"], folder, KVCM_METADATA_WORKERS="2")
        try:
            process.wait_until_ready(120)
            made = Failover(process)
            made.add_storage("pool", "tair_mempool", pool_spec(agent))
            made.add_storage("spare", "nfs", {"root_path": f"{tmp_path}/spare/", "key_count_per_file": 8})
            made.use(["pool", "spare"])
            yield made
        finally:
            process.end()


@pytest.mark.parametrize("kind", ["hangs", "dies"])
def test_writes_go_on_elsewhere_and_come_back(failover, host, agent, tmp_path, kind):
    with failover.replaying(tmp_path) as engines:
        failover.until_written("pool", 30)
        broken_at = time.monotonic()
        if kind == "hangs":
            os.kill(agent.process.pid, signal.SIGSTOP)
        else:
            agent.kill()
        noticed = failover.until_health("pool", "failing", NOTICED) - broken_at
        switched = failover.until_written("spare", 10) - broken_at
        assert not engines.is_over
        mended_at = time.monotonic()
        if kind == "hangs":
            os.kill(agent.process.pid, signal.SIGCONT)
        else:
            host.restart(agent, SIZE, "--discard")  # another host's memory: all that was there is gone
        returned = failover.until_health("pool", "ok", 2 * INTERVAL + 20) - mended_at
        used_again = failover.until_written("pool", 30) - mended_at
        figures = engines.figures()
    slowest = max(rpc["max_ms"] for rpc in figures["rpc"].values())
    print(f"{kind}: noticed {noticed:.1f} s, written elsewhere {switched:.1f} s after it")
    print(f"{kind}: healthy {returned:.1f} s, used again {used_again:.1f} s after it was mended")
    print(f"{kind}: slowest call {slowest:.0f} ms, {figures}")
    assert figures["bytes_wrong"] == 0
    assert slowest < CALL_SECONDS * 1000
    rows = recount(failover.platform)
    assert {row.get("group", row.get("node")) for row in rows} == {"default", "a"}
    assert not any(row["drift"] for row in rows)
