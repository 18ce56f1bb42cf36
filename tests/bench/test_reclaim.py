"""Reclaim against DESIGN 10: plan, marks and deletions with a million blocks, and matches meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from kvcm_platform.client import (
    BlockingMetadataClient,
    Connection,
    LocationSpecInfo,
    ModelDeployment,
    Registration,
)
from kvcm_platform.core.registry import MetaIndexerSettings, ReclaimSettings
from kvcm_platform.index import registry
from kvcm_platform.settings.env import Env
from kvcm_platform.storage import marker
from tests.support.data_plane import data_plane, group, instance, storage
from tests.support.objects import put_objects
from tests.support.platform_process import PlatformProcess, short_data_dir
from tests.support.rest import admin_of
from tests.support.used_blocks import used
from tests.support.valkey import valkey_server

from .million import BLOCKS, FIRST_KEY, PROMPTS, Platform, match_of, part, platform
from .reclaiming import reclaimer, run
from .removal import latencies_us
from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

PERCENT = 5.0
RUNS = 6
PLAN_SECONDS, MARKED_A_SECOND, FREED_A_SECOND, LATENCY_RATIO, WAKE_TO_FREED_SECONDS = 1, 50_000, 5_000, 3, 1.6
HOUR_MS = 3_600_000
FILES_BLOCKS, SLOT = 40_000, 4096


@pytest.fixture(scope="module", params=[1, 8])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[int, Platform]]:
    """A million blocks that are reclaimed, but not deleted yet."""
    patient = group(
        reclaim=ReclaimSettings(delay_before_delete_ms=HOUR_MS),
        meta_indexer=MetaIndexerSettings(max_key_count=10_000_000),
    )
    with platform() as running:
        client = running.valkey.client()
        registry.publish(client, version=2, changed=(patient, instance(shards=request.param)))
        client.close()
        with running.process("fast"):
            running.fill("fast", range(FIRST_KEY, FIRST_KEY + BLOCKS))
            yield request.param, running


def title_of(shards: int) -> str:
    return f"Reclaim of {PERCENT:g} % of {BLOCKS:,} blocks, {shards} shard{'s' if shards > 1 else ''}"


def test_plan_and_marks(served: tuple[int, Platform], report: Report) -> None:
    shards, running = served
    with reclaimer(running.valkey.url) as reclaiming:
        done = [reclaiming.run(PERCENT) for _ in range(RUNS)]
    plan = statistics.median(one.plan_seconds for one in done)
    report.add(title_of(shards), "plan", plan, "s", PLAN_SECONDS, worst=max(one.plan_seconds for one in done))
    report.add(
        title_of(shards),
        "marked in the index, besides the plan",
        statistics.median(one.blocks / one.marking_seconds for one in done),
        "blocks/s",
        MARKED_A_SECOND,
        is_floor=True,
        blocks=statistics.median(one.blocks for one in done),
        with_the_plan=statistics.median(one.blocks / one.seconds for one in done),
    )


def test_matches_meanwhile(served: tuple[int, Platform], report: Report) -> None:
    shards, running = served
    address = running.processes["fast"].rpc
    keys = part(PROMPTS - 1, 64)
    with reclaimer(running.valkey.url) as reclaiming, ThreadPoolExecutor(1) as pool:
        latencies_us(address, match_of, keys, 1)
        idle = latencies_us(address, match_of, keys, 5)
        working = pool.submit(lambda: [reclaiming.run(PERCENT) for _ in range(RUNS)])
        inside, outside = list[float](), list[float]()
        while not working.done():
            taken = latencies_us(address, match_of, keys, 0.2)
            inside += taken.inside
            outside += taken.outside
        done = working.result()
    quiet, busy = _p99(idle.inside), _p99(inside)
    report.add(
        title_of(shards),
        "match p99 meanwhile / idle, inside the server",
        busy / quiet,
        "times",
        LATENCY_RATIO,
        idle_us=quiet,
        meanwhile_us=busy,
        calls=len(inside),
        outside_idle_us=_p99(idle.outside),
        outside_meanwhile_us=_p99(outside),
        marked_a_s=statistics.median(one.blocks / one.seconds for one in done),
    )


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def test_files_are_freed(report: Report) -> None:
    """Reclaim and deletions by one worker, blocks with bytes in files of 8 slots."""
    with short_data_dir() as folder, valkey_server() as valkey:
        blocks, seconds = asyncio.run(_reclaim_files(valkey.url, valkey.client(), folder / "nfs"))
    report.add(
        "Reclaim with files",
        "freed by one worker, from the request to the last byte",
        blocks / seconds["all"],
        "blocks/s",
        FREED_A_SECOND,
        is_floor=True,
        blocks=blocks,
        marking_s=seconds["marking"],
        deleting_s=seconds["deleting"],
    )


async def _reclaim_files(url: str, client: redis.Redis, root: Path) -> tuple[int, dict[str, float]]:
    root.mkdir()
    marker.mark(str(root))
    entries = (storage(root), group(), instance(specs=[("tp0", SLOT)]))
    async with data_plane(url, client, *entries) as plane:
        for start in range(0, FILES_BLOCKS, 512):
            keys = range(start, min(start + 512, FILES_BLOCKS))
            started = await plane.start(keys, timeout=600)
            await asyncio.to_thread(put_objects, started.locations)
            await plane.finish(started, len(started.locations))
        began = time.perf_counter()
        done = await run(plane, client, 100.0)
        marked = time.perf_counter()
        plane.make_due()  # The half second that readers have is no work.
        due = time.perf_counter()
        deleted = 0
        while deleted < done.chosen_blocks:
            deleted += (await plane.duties()).deletions.deleted
        ended = time.perf_counter()
        assert not (await plane.recount()).has_drift
        assert [path for path in root.rglob("*") if path.is_file() and path.name != marker.MARKER] == []
    return deleted, {
        "all": marked - began + ended - due,
        "marking": marked - began,
        "deleting": ended - due,
    }


def test_from_the_wake_to_freed_quota(report: Report) -> None:
    """The whole platform: from a Start that comes to the high mark until all above the low one is freed."""
    capacity, high, low, rounds = 1000, 0.8, 0.7, 8
    with short_data_dir() as folder:
        running = PlatformProcess(["manage.py", "up"], folder, KVCM_ADMIN_PASSWORD="a password of benches")
        try:
            running.wait_until_ready()
            admin_of(running, "bench")(
                "instance-groups/",
                {
                    "name": "bench",
                    "storage_candidates": ["nfs_01"],
                    "quota": {"capacity_bytes": capacity * SLOT},
                    "reclaim": {
                        "used_ratio": high,
                        "low_watermark_ratio": low,
                        "delay_before_delete_ms": 0,
                    },
                },
            )
            with (
                redis.Redis.from_url(Env(running.environment).redis_url) as client,
                BlockingMetadataClient(
                    Connection(f"127.0.0.1:{running.port('KVCM_META_RPC_PORT')}")
                ) as engine,
            ):
                seconds = sorted(_rounds(engine, client, capacity, high, low, rounds))
            running.stop()
        finally:
            running.end()
    report.add(
        "Reclaim, whole platform",
        "from the wake to freed quota, median",
        seconds[len(seconds) // 2],
        "s",
        WAKE_TO_FREED_SECONDS,
        least=seconds[0],
        most=seconds[-1],
    )


def _rounds(
    engine: BlockingMetadataClient, client: redis.Redis, capacity: int, high: float, low: float, rounds: int
) -> Iterator[float]:
    specs = (LocationSpecInfo("tp0", SLOT),)
    engine.register_instance(Registration("bench", "bench", 4, specs, ModelDeployment("m", "bf16")))
    entry, key = registry.read(client).instances["bench"], FIRST_KEY

    def held() -> float:
        """Of the quota, pending deletions included."""
        return used(client, entry).total / SLOT / capacity

    for _ in range(rounds):
        while True:
            started = engine.start_write("bench", range(key, key + 10))
            engine.finish_write("bench", started.session_id, 10)
            key += 10
            began = time.monotonic()
            if held() >= high:
                break
        deadline = began + 60
        while held() > low:
            assert time.monotonic() < deadline, "nothing is reclaimed"
            time.sleep(0.005)
        yield time.monotonic() - began
