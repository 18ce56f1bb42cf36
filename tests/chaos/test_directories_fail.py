"""A mounted directory hangs, and goes away, in the middle of a replay with two candidates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failover import Failover
from tests.support.hanging_mount import HangingMount, hanging_mount
from tests.support.platform_process import PlatformProcess, short_data_dir
from tests.support.replays import recount

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(600)]

INTERVAL = 5.0
"""Seconds between the checks of a storage."""
NOTICED = INTERVAL + 2 * 3.0 + 1.0 + 2.0
"""A check that finds it hanging, the second look, and what the machine takes."""
CALL_SECONDS = 30.0
"""How long engines wait for an answer."""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[HangingMount]:
    with hanging_mount(tmp_path) as running:
        yield running


@pytest.fixture
def failover(mount: HangingMount, tmp_path: Path) -> Iterator[Failover]:
    with short_data_dir() as folder:
        process = PlatformProcess(["manage.py", "up"], folder, KVCM_METADATA_WORKERS="2")
        try:
            process.wait_until_ready(120)
            made = Failover(process)
            made.add_storage("mounted", "nfs", {"root_path": f"{mount.path}/", "key_count_per_file": 8})
            made.add_storage("spare", "nfs", {"root_path": f"{tmp_path}/spare/", "key_count_per_file": 8})
            made.use(["mounted", "spare"])
            yield made
        finally:
            process.end()


@pytest.mark.parametrize("kind", ["hangs", "goes"])
def test_writes_go_on_elsewhere_and_come_back(failover, mount, tmp_path, kind):
    with failover.replaying(tmp_path) as engines:
        failover.until_written("mounted", 30)
        broken_at = time.monotonic()
        (mount.hang if kind == "hangs" else mount.take_away)()
        noticed = failover.until_health("mounted", "failing", NOTICED) - broken_at
        switched = failover.until_written("spare", 10) - broken_at
        assert not engines.is_over
        mended_at = time.monotonic()
        (mount.go_on if kind == "hangs" else mount.bring_back)()
        returned = failover.until_health("mounted", "ok", 2 * INTERVAL + 10) - mended_at
        used_again = failover.until_written("mounted", 20) - mended_at
        figures = engines.figures()
    slowest = max(rpc["max_ms"] for rpc in figures["rpc"].values())
    print(f"{kind}: noticed {noticed:.1f} s, written elsewhere {switched:.1f} s after it")
    print(f"{kind}: healthy {returned:.1f} s, used again {used_again:.1f} s after it was mended")
    print(f"{kind}: slowest call {slowest:.0f} ms, {figures}")
    assert figures["bytes_wrong"] == 0
    assert slowest < CALL_SECONDS * 1000
    assert [row["drift"] for row in recount(failover.platform)] == [{}]
