"""A Mooncake master hangs, and dies with all it holds, in the middle of a replay with two candidates."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failover import BLOCK, Failover
from tests.support.mooncake import MooncakeMaster, running_mooncake
from tests.support.platform_process import ROOT, PlatformProcess, short_data_dir, wait_for
from tests.support.replays import recount, replay_command

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(600)]

INTERVAL = 5.0
"""Seconds between the checks of a storage."""
NOTICED = INTERVAL + 2 * 3.0 + 1.0 + 2.0
"""A check that finds it away, the second look, and what the machine takes."""
ENOUGH = 3000
"""Blocks on the store when it fails, so that engines read from it as well."""
CALL_SECONDS = 30.0
"""How long engines wait for an answer."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MooncakeMaster]:
    # More than all blocks of the trace: what the store evicts by itself is another matter.
    with running_mooncake(tmp_path, lease_seconds=10, segment_bytes=1 << 30) as running:
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
        wait_for(lambda: failover.blocks("moon") > ENOUGH, 60, "much is written to the store")
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
    assert [row["drift"] for row in recount(failover.platform)] == [{}]
    wait_for(lambda: _reads_all(failover, tmp_path), 90, "no block is left whose object is gone")


def _reads_all(failover: Failover, folder: Path) -> bool:
    """Whether every block that a part of the trace hits can be read."""
    options = ("--instance", "failover", "--with-data", "--block-bytes", str(BLOCK), "--limit", "400")
    command = replay_command(failover.platform, folder / "trace.jsonl", *options)
    done = subprocess.run(
        command, cwd=ROOT, env=failover.platform.environment, capture_output=True, text=True, timeout=120
    )
    figures = json.loads(done.stdout)
    print(f"read again: {figures['hit_blocks']} hits, {figures['failed_reads']} failed")
    assert figures["bytes_wrong"] == 0
    return figures["failed_reads"] == 0
