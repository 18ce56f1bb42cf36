from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from kvcm_platform.core.reclaim.runs import RunReport, RunState, Trigger
from kvcm_platform.core.registry import InstanceEntry, Quota
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.data_plane import data_plane, found_all

T0 = 1_790_000_000_000
"""A moment in ms, far enough from now to be told from it."""
Report = Callable[..., bytes]
Write = Callable[..., None]
Held = Callable[..., list[int]]
BLOCK = 2048


@pytest.fixture
def model(index: redis.Redis, tmp_path: Path) -> InstanceEntry:
    """Storage `nfs_a`, group `chat` on it, one instance `model-a`."""
    make_storage(tmp_path, "nfs_a")
    make_group(quota=Quota(capacity_bytes=10_000_000))
    return make_instance()


def report_of(run_id: str = "00000000000000a1", **more: Any) -> RunReport:
    values: dict[str, Any] = {
        "group": "chat",
        "trigger": Trigger.WATERMARK,
        "state": RunState.CHOOSING,
        "policy": "lru",
        "budget": "group_lru",
        "began_ms": T0,
    }
    return RunReport(id=run_id, **{**values, **more})


@pytest.fixture
def write(index: redis.Redis, model: InstanceEntry, settings) -> Write:
    """An engine's write of whole blocks, 2048 bytes each, without bytes on the storage."""

    async def run(keys: Sequence[int], instance_id: str) -> None:
        async with data_plane(settings.KVCM_REDIS_URL, index) as plane:
            started = await plane.service.start_write(instance_id, Blocks(list(keys), ()), (), 30)
            await plane.service.finish_write(instance_id, started.session_id, len(keys))
            await plane.index.pusher.flush()

    return lambda keys, instance_id="model-a": asyncio.run(run(keys, instance_id))


@pytest.fixture
def held(index: redis.Redis, model: InstanceEntry, settings) -> Held:
    """The blocks among these keys that are served."""

    async def run(keys: Sequence[int], instance_id: str) -> list[int]:
        async with data_plane(settings.KVCM_REDIS_URL, index) as plane:
            wires = await plane.service.get_cache_location(
                instance_id, 1, Blocks(list(keys), ()), None, 0, ()
            )
            return [key for key, one in zip(keys, found_all(wires), strict=True) if one.uri]

    return lambda keys, instance_id="model-a": asyncio.run(run(keys, instance_id))


@pytest.fixture
def report(index: redis.Redis) -> Report:
    """Adds a report to the stream, as a reclaimer does; returns its position."""

    def add(run_id: str = "00000000000000a1", **more: Any) -> bytes:
        entry = json.dumps(report_of(run_id, **more).to_dict())
        return index.xadd(keyspace.RECLAIM_REPORTS, {"d": entry})

    return add
