from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from kvcm_platform.core.reclaim.runs import RunReport, RunState, Trigger
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import keyspace
from tests.factories.objects import make_group, make_instance, make_storage

T0 = 1_790_000_000_000
"""A moment in ms, far enough from now to be told from it."""
Report = Callable[..., bytes]


@pytest.fixture
def model(index: redis.Redis, tmp_path: Path) -> InstanceEntry:
    """Storage `nfs_a`, group `chat` on it, one instance `model-a`."""
    make_storage(tmp_path, "nfs_a")
    make_group()
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
def report(index: redis.Redis) -> Report:
    """Adds a report to the stream, as a reclaimer does; returns its position."""

    def add(run_id: str = "00000000000000a1", **more: Any) -> bytes:
        entry = json.dumps(report_of(run_id, **more).to_dict())
        return index.xadd(keyspace.RECLAIM_REPORTS, {"d": entry})

    return add
