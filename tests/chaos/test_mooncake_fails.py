"""A Mooncake master hangs, and dies with all it holds, in the middle of a replay with two candidates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failover import Failover
from tests.support.mooncake import MooncakeMaster, running_mooncake
from tests.support.platform_process import PlatformProcess, short_data_dir, wait_for
from tests.support.replays import recount

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(600)]

INTERVAL = 5.0
"""Seconds between the checks of a storage."""
NOTICED = INTERVAL + 2 * 3.0 + 1.0 + 2.0
"""A check that finds it away, the second look, and what the machine takes."""
CALL_SECONDS = 30.0
"""How long engines wait for an answer."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path, lease_seconds=10) as running:
        yield running


@pytest.fixture
def failover(master: MooncakeMaster, tmp_path: Path) -> Iterator[Failover]:
    with short_data_dir() as folder:
        process = PlatformProcess(["manage.py", "up"], folder, KVCM_METADATA_WORKERS="2")
        try:
            process.wait_until_ready(120)
            made = Failover(process)
            made.add_storage("moon", "mooncake", master.spec)
            made.add_storage("spare", "nfs", {"root_path": f"{tmp_path}/spare/", "key_count_per_file": 8})
            made.use(["moon", "spare"])
            yield made
        finally:
            process.end()


@pytest.mark.parametrize("kind", ["hangs", "dies"])
def test_writes_go_on_elsewhere_and_come_back(failover, master, tmp_path, kind):
    with failover.replaying(tmp_path) as engines:
        failover.until_written("moon", 30)
        broken_at = time.monotonic()
        (master.stop_answering if kind == "hangs" else master.kill)()
        noticed = failover.until_health("moon", "failing", NOTICED) - broken_at
        switched = failover.until_written("spare", 10) - broken_at
        assert not engines.is_over
        mended_at = time.monotonic()
        (master.go_on if kind == "hangs" else master.start)()
        returned = failover.until_health("moon", "ok", 2 * INTERVAL + 20) - mended_at
        used_again = failover.until_written("moon", 30) - mended_at
        figures = engines.figures()
    slowest = max(rpc["max_ms"] for rpc in figures["rpc"].values())
    print(f"{kind}: noticed {noticed:.1f} s, written elsewhere {switched:.1f} s after it")
    print(f"{kind}: healthy {returned:.1f} s, used again {used_again:.1f} s after it was mended")
    print(f"{kind}: slowest call {slowest:.0f} ms, {figures}")
    assert figures["bytes_wrong"] == 0
    assert slowest < CALL_SECONDS * 1000
    _, group = wait_for(lambda: (True, recount(failover.platform)[0]), 60, "recount")
    assert group["drift"] == {}
