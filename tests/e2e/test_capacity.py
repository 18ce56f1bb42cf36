"""Capacity on the whole platform: a group at its mark is brought down and says why; trims keep their word."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from kvcm_platform.client import (
    BlockingMetadataClient,
    Connection,
    LocationSpecInfo,
    ModelDeployment,
    Registration,
)
from kvcm_platform.index import registry
from kvcm_platform.settings.env import Env
from tests.e2e.conftest import Platform
from tests.support.objects import write_blocks
from tests.support.platform_process import wait_for
from tests.support.replays import recount
from tests.support.rest import Rest, admin_of
from tests.support.used_blocks import live_slots, slots_with_data, used

SLOT, CAPACITY = 4096, 100
HIGH, LOW = 0.8, 0.7


@pytest.fixture(scope="module")
def rest(platform: Platform) -> Rest:
    return admin_of(platform.process, "capacity")


@pytest.fixture(scope="module")
def index(platform: Platform) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(Env(platform.process.environment).redis_url) as client:
        yield client


@pytest.fixture(scope="module")
def engine(platform: Platform) -> Iterator[BlockingMetadataClient]:
    with BlockingMetadataClient(Connection(platform.endpoint)) as client:
        yield client


def make(rest: Rest, engine: BlockingMetadataClient, name: str, **reclaim: Any) -> None:
    """A group and its only instance."""
    rest(
        "instance-groups/",
        {
            "name": name,
            "storage_candidates": ["nfs_01"],
            "quota": {"capacity_bytes": CAPACITY * SLOT},
            "reclaim": {"delay_before_delete_ms": 0, **reclaim},
        },
    )
    engine.register_instance(
        Registration(name, name, 4, (LocationSpecInfo("tp0", SLOT),), ModelDeployment("m", "bf16"))
    )


def test_a_group_at_its_mark_is_brought_down_and_tells_why(
    platform: Platform, rest: Rest, engine: BlockingMetadataClient, index: redis.Redis
) -> None:
    make(rest, engine, "mark", used_ratio=HIGH, low_watermark_ratio=LOW)
    entry = registry.read(index).instances["mark"]
    prompts = [range(first, first + 4) for first in range(1000, 1080, 4)]
    for prompt in prompts:
        write_blocks(engine, "mark", prompt)
    # 80 of 100: the last one came to the mark. What is pending counts until its files are free.
    wait_for(lambda: used(index, entry).total <= LOW * CAPACITY * SLOT, 60, "usage is at the low mark")
    assert used(index, entry).total == LOW * CAPACITY * SLOT, "not one block more"
    found = [len(engine.get_cache_location("mark", prompt)) for prompt in prompts]
    # Ten blocks: the oldest two prompts, and the tail of the third.
    assert found == [0, 0, 2, *[4] * 17]

    def run() -> Any:
        (one,) = rest("capacity/reclaim-runs/?instance_group=mark")["results"] or [None]
        return one if one and one["state"] == "done" else None

    done = wait_for(run, 60, "the run is over")
    assert isinstance(done, dict)
    assert (done["trigger"], done["stop"]) == ("watermark", "enough")
    assert (done["chosen_blocks"], done["freed_blocks"], done["failed_blocks"]) == (10, 10, 0)
    (why,) = rest(f"capacity/evictions/?instance_id=mark&key={prompts[0][0]}")["results"]
    assert (why["cause"], why["run_id"]) == ("reclaim", done["id"])
    assert rest("instances/mark/")["traffic"]["quota_refused"] == 0
    assert slots_with_data(platform.process.data_dir / "nfs_01" / "mark", SLOT) == live_slots(index, entry)
    recount(platform.process)


def test_a_lower_quota_takes_what_its_preview_says(
    rest: Rest, engine: BlockingMetadataClient, index: redis.Redis
) -> None:
    make(rest, engine, "lower", used_ratio=HIGH, low_watermark_ratio=LOW)
    entry = registry.read(index).instances["lower"]
    for first in range(2000, 2060, 4):
        write_blocks(engine, "lower", range(first, first + 4))
    smaller = {"quota": {"capacity_bytes": CAPACITY * SLOT // 2, "per_type": {}}}
    preview = rest("capacity/preview/", {"kind": "quota", "instance_group": "lower", **smaller})
    assert preview["planned_blocks"] == 60 - 35
    version = rest("instance-groups/lower/")["version"]
    rest("instance-groups/lower/", {"version": version, **smaller}, "PATCH")
    wait_for(lambda: used(index, entry).total == 35 * SLOT, 60, "usage is at the low mark of the new quota")


def test_a_trim_of_a_span_takes_what_its_preview_counts(
    rest: Rest, engine: BlockingMetadataClient, index: redis.Redis
) -> None:
    make(rest, engine, "span", used_ratio=3.2)
    entry = registry.read(index).instances["span"]
    moments = []
    for first in (3000, 3100, 3200):
        moments.append(moment(index))
        write_blocks(engine, "span", range(first, first + 20))
        time.sleep(0.02)
    span = {"instance_id": "span", "strategy": "written", "begin": moments[1], "end": moments[2]}
    foreseen = rest("cache/trim/", {**span, "dry_run": True})
    assert (foreseen["blocks"], foreseen["bytes"]) == (20, 20 * SLOT)
    assert used(index, entry).live == 60 * SLOT, "a preview changes nothing"
    done = rest("cache/trim/", span)
    assert (done["blocks"], done["is_complete"]) == (foreseen["blocks"], True)
    assert used(index, entry).live == 60 * SLOT - foreseen["bytes"]
    assert [len(engine.get_cache_location("span", [key])) for key in (3000, 3100, 3200)] == [1, 0, 1]


def moment(index: redis.Redis) -> str:
    """By the clock that stamps blocks; at least a millisecond lies between it and what is written next."""
    seconds, micros = index.time()
    time.sleep(0.02)
    return datetime.fromtimestamp(seconds + micros / 1e6 + 0.01, UTC).isoformat()
