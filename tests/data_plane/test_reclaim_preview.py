"""A preview names what a run takes, and changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcm_platform.core.reclaim.runs import ReclaimRequest
from kvcm_platform.core.registry import GroupEntry, Quota
from kvcm_platform.core.types import ReclaimBudget, ReclaimPolicy, StorageType
from kvcm_platform.duties.reclaim_preview import HISTOGRAM_SECONDS, ReclaimPreview, reclaim_preview
from kvcm_platform.index import keyspace
from tests.support.data_plane import DataPlane, instance
from tests.support.reclaims import KIB, OLD, age, ask, limited, reclaim, redis_of, reports

CHAINS = [list(range(at, at + 10)) for at in range(1, 100, 10)]
KEYS = list(range(1, 91))


async def look(
    plane: DataPlane, entry: GroupEntry | None = None, request: ReclaimRequest | None = None, **options
) -> ReclaimPreview:
    await plane.index.pusher.flush()
    session = await plane.session()
    return await reclaim_preview(session, entry or session.registry.groups["default"], request, **options)


async def filled(plane: DataPlane) -> None:
    for number, keys in enumerate(CHAINS[:9]):
        await plane.write(keys, "model-b" if number % 3 == 0 else "model-a")
    for name in ("model-a", "model-b"):
        age(plane, CHAINS, name)


async def test_a_preview_of_a_lower_quota_says_what_goes(plane):
    plane.publish(2, limited(1000), instance("model-b", 0xB))
    await filled(plane)
    now = await look(plane)
    assert (now.planned_blocks, now.scopes, now.candidates) == (0, [], [])
    assert (now.evictable_blocks, now.evictable_bytes) == (90, 90 * KIB)
    found = await look(plane, limited(100))
    assert (found.planned_blocks, found.planned_bytes) == (15, 15 * KIB)
    assert (found.used_before_bytes, found.used_after_bytes) == (90 * KIB, 75 * KIB)
    assert (found.capacity_bytes, found.is_complete) == (100 * KIB, True)
    assert [one["need"] for one in found.scopes] == [15 * KIB]
    assert found.by_instance == {"model-b": [10, 10 * KIB], "model-a": [5, 5 * KIB]}
    assert found.by_storage == {"nfs_01": [15, 15 * KIB]}
    first = found.candidates[0]
    assert (first.instance_id, first.storage) == ("model-b", "nfs_01")
    assert first.key in CHAINS[0]
    assert first.depth == CHAINS[0].index(first.key)
    assert abs(first.idle_ms - (plane.index.now_ms() - OLD)) < 60_000
    assert sum(one.blocks for one in found.candidates) == 15
    for key in (keyspace.RECLAIM_OPEN, keyspace.RECLAIM_REPORTS, keyspace.RECLAIM_TROUBLES):
        assert not redis_of(plane).exists(key)
    assert set(await plane.statuses(CHAINS[0], "model-b")) == {"SERVING"}


async def test_the_histogram_holds_everything_that_may_go(plane):
    plane.publish(2, limited(1000), instance("model-b", 0xB))
    await filled(plane)
    await plane.write(list(range(200, 207)))
    await plane.start([300])
    found = await look(plane)
    classes = {one.idle_from_seconds: (one.blocks, one.bytes) for one in found.age_histogram}
    assert tuple(classes) == HISTOGRAM_SECONDS
    assert [one.idle_to_seconds for one in found.age_histogram] == [*HISTOGRAM_SECONDS[1:], None]
    assert classes[0] == (7, 7 * KIB), "those being written may not go"
    assert classes[30 * 86400] == (90, 90 * KIB)
    assert sum(blocks for blocks, _ in classes.values()) == found.evictable_blocks == 97


@pytest.mark.parametrize(
    "wanted",
    [
        {"percent": 5.0},
        {"blocks": 33},
        {"bytes": 20 * KIB + 5},
        {"instance_id": "model-b", "blocks": 12},
        {"idle_seconds": 3600, "instance_id": "model-b"},
        {"storage": "nfs_01", "blocks": 7},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("budget", list(ReclaimBudget))
async def test_what_is_requested_goes_as_previewed(plane, wanted, budget):
    plane.publish(2, limited(92, 1.0, low_watermark_ratio=0.5, budget=budget), instance("model-b", 0xB))
    await filled(plane)
    found = await look(plane, request=ReclaimRequest("", "default", **wanted))
    ask(plane, **wanted)
    await reclaim(plane)
    (report,) = reports(plane)
    assert (found.planned_blocks, found.planned_bytes) == (report.chosen_blocks, report.chosen_bytes)
    assert found.planned_blocks > 0
    assert found.by_instance == report.by_instance
    assert found.by_storage == report.by_storage


async def test_what_one_limit_takes_counts_for_the_next(plane):
    """Of 100 KiB of nfs and of 100 KiB in all: what goes for the type is enough for the group."""
    base = limited(100)
    entry = replace(base, quota=Quota(100 * KIB, {StorageType.NFS: 50 * KIB}))
    plane.publish(2, limited(1000), instance("model-b", 0xB))
    await filled(plane)
    found = await look(plane, entry)
    assert [(one["scope"], one["need"]) for one in found.scopes] == [
        ("storage_type", 90 * KIB - 37 * KIB - KIB // 2),
        ("group", 15 * KIB),
    ]
    assert found.planned_blocks == 53
    plane.publish(3, entry)
    assert (await reclaim(plane)).marked_blocks == 53


async def test_blocks_past_their_time_to_live_are_part_of_it(plane):
    plane.publish(2, limited(1000, policy=ReclaimPolicy.TTL, ttl_seconds=3600), instance("model-b", 0xB))
    await filled(plane)
    await plane.write(list(range(200, 207)))
    found = await look(plane)
    assert (found.planned_blocks, found.evictable_blocks) == (90, 97)


async def test_a_preview_without_time_says_so(plane):
    plane.publish(2, limited(1000), instance("model-b", 0xB))
    await filled(plane)
    found = await look(plane, limited(0), seconds=-1)
    assert not found.is_complete
    assert found.evictable_blocks == 90


async def test_a_preview_of_what_does_not_exist(plane):
    found = await look(plane, request=ReclaimRequest("", "default", instance_id="nobody", blocks=5))
    assert found.obstacle == "instance nobody is not in group default"
