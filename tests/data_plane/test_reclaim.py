"""Rounds of reclaim over a real index: what goes, how much, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.reclaim.marks import Scope, Subject
from kvcm_platform.core.reclaim.runs import RunState, Trigger
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.types import ReclaimBudget, ReclaimPolicy, StorageType
from kvcm_platform.duties import reclaim_group
from kvcm_platform.index import keyspace
from kvcm_platform.index.waking import Waker
from tests.support.data_plane import DataPlane, instance
from tests.support.reclaims import KIB, age, ask, limited, reclaim, redis_of, reports, served

CHAINS = [list(range(at, at + 10)) for at in range(1, 100, 10)]
KEYS = list(range(1, 91))


async def filled(plane: DataPlane, count: int = 9) -> None:
    """So many chains of ten blocks, the first one the coldest."""
    for keys in CHAINS[:count]:
        await plane.write(keys)
    age(plane, CHAINS)


async def finish(plane: DataPlane) -> None:
    """Frees what was marked, and settles the runs."""
    plane.make_due()
    await plane.duties()
    await reclaim(plane)


@pytest.mark.one_shard
async def test_a_group_over_its_high_mark_is_brought_down_to_the_low_one(plane):
    plane.publish(2, limited(100, 0.8))
    await filled(plane)
    summary = await reclaim(plane)
    assert summary.marked == {"default": [15, 15 * KIB]}
    assert summary.due_in_ms == 500
    # The oldest chain goes whole, of the next one its end.
    assert await served(plane, KEYS) == [11, 12, 13, 14, 15, *range(21, 91)]
    (report,) = reports(plane)
    assert (report.trigger, report.state, report.stop) == (Trigger.WATERMARK, RunState.DELETING, "enough")
    assert (report.chosen_blocks, report.chosen_bytes, report.planned_blocks) == (15, 15 * KIB, 15)
    assert (report.used_before_bytes, report.used_after_bytes) == (90 * KIB, 75 * KIB)
    assert report.by_instance == {"model-a": [15, 15 * KIB]}
    assert report.by_storage == {"nfs_01": [15, 15 * KIB]}
    assert report.scopes == [
        {
            "scope": "group",
            "subject": "default",
            "used": 90 * KIB,
            "limit": 100 * KIB,
            "high": 80 * KIB,
            "low": 75 * KIB,
            "need": 15 * KIB,
        }
    ]
    assert report.newest_use_ms - report.oldest_use_ms == 1000


async def test_a_refused_start_gets_room_though_the_group_is_below_its_low_mark(plane):
    """50 of 100 KiB are used, 75 may stay: 70 more fit once 20 are gone. For 101 nothing goes."""
    plane.publish(2, limited(100, 0.8))
    await filled(plane, 5)
    await plane.mirror.refresh()
    for count, marked in ((101, {}), (70, {"default": [20, 20 * KIB]})):
        with pytest.raises(DomainError) as caught:
            await plane.start(range(1000, 1000 + count))
        assert caught.value.code is Code.CAPACITY
        assert (await reclaim(plane)).marked == marked
    (report,) = reports(plane)
    assert (report.trigger, report.stop) == (Trigger.REFUSED, "enough")
    await finish(plane)
    await plane.start(range(1000, 1070))
    assert (await reclaim(plane)).marked["default"][0] > 0, "120 of 100 would be a defect, 100 is the mark"


async def test_refusals_of_groups_that_are_gone_are_forgotten(plane):
    waker = Waker(plane.index.connection)
    await waker.refused("default", [Subject(Scope.GROUP, "default")], 10)
    await waker.refused("other", [Subject(Scope.GROUP, "other")], 10)
    redis_of(plane).zadd(keyspace.RECLAIM_WANTED, {"what is this": 5, "default|colour|red": 5})
    await reclaim(plane)
    assert redis_of(plane).zcard(keyspace.RECLAIM_WANTED) == 0


async def test_a_run_is_done_when_its_last_block_was_freed(plane):
    plane.publish(2, limited(100, 0.8))
    await filled(plane)
    await reclaim(plane)
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.freed_blocks) == (RunState.DELETING, 0)
    await finish(plane)
    (report,) = reports(plane)
    assert (report.state, report.freed_blocks, report.freed_bytes) == (RunState.DONE, 15, 15 * KIB)
    assert report.ended_ms >= report.marked_ms >= report.began_ms > 0
    for key in (keyspace.RECLAIM_OPEN, keyspace.RECLAIM_SETTLING, keyspace.RECLAIM_REQUESTS):
        assert redis_of(plane).hlen(key) == 0
    count = await plane.recount()
    assert (count.used, count.drift) == (75 * KIB, {})


async def test_what_is_on_its_way_out_is_not_asked_for_again(plane):
    plane.publish(2, limited(100, 0.8))
    await filled(plane)
    await reclaim(plane)
    assert (await reclaim(plane)).marked == {}
    await plane.write(CHAINS[9][:5])
    # 80 of 100 are live, with 15 more pending.
    assert (await reclaim(plane)).marked == {"default": [5, 5 * KIB]}


async def test_below_the_high_mark_nothing_goes(plane):
    plane.publish(2, limited(100, 0.8))
    await filled(plane, 7)
    assert (await reclaim(plane)).marked == {}
    assert reports(plane) == []


@pytest.mark.one_shard
async def test_lowering_a_quota_brings_the_group_down_at_once(plane):
    plane.publish(2, limited(1000, 0.8))
    await filled(plane)
    assert (await reclaim(plane)).marked == {}
    plane.publish(3, limited(20, 0.8, trigger_period_seconds=3600))
    assert (await reclaim(plane)).marked == {"default": [75, 75 * KIB]}
    (report,) = reports(plane)
    assert report.trigger is Trigger.QUOTA
    assert await served(plane, KEYS) == [*range(71, 76), *range(81, 91)]


async def test_a_group_without_room_gives_everything_that_may_go(plane):
    plane.publish(2, limited(1000))
    await filled(plane, 3)
    open_ = await plane.start(list(range(200, 205)))
    await plane.index.pusher.flush()
    plane.publish(3, limited(0))
    assert (await reclaim(plane)).marked_blocks == 30
    (report,) = reports(plane)
    assert report.stop == "nothing_left"
    assert await plane.statuses(list(range(200, 205))) == ["WRITING"] * 5
    assert (await reclaim(plane)).marked == {}
    await plane.finish(open_, 5)
    assert (await reclaim(plane)).marked_blocks == 5


async def test_the_blocks_that_one_being_written_depends_on_stay(plane):
    plane.publish(2, limited(1000))
    await plane.write(KEYS[:20])
    open_ = await plane.start(KEYS[:25])
    await plane.index.recency.flush()
    plane.publish(3, limited(0))
    assert (await reclaim(plane)).marked == {}
    await plane.finish(open_, 5)
    assert (await reclaim(plane)).marked_blocks == 25


async def test_blocks_that_were_finished_within_the_grace_time_stay(plane):
    plane.publish(2, limited(0, grace_seconds=3600))
    plane.publish(3, limited(1000))
    await filled(plane, 3)
    plane.publish(4, limited(0, grace_seconds=3600))
    assert (await reclaim(plane)).marked == {}
    plane.publish(5, limited(0, grace_seconds=0))
    assert (await reclaim(plane)).marked_blocks == 30


async def test_runs_that_begin_are_a_period_apart(plane):
    plane.publish(2, limited(100, 0.8, trigger_period_seconds=3600))
    await filled(plane)
    assert (await reclaim(plane)).marked_blocks == 15
    await plane.write([*CHAINS[9], *CHAINS[0][:5]])
    assert (await reclaim(plane)).marked == {}
    plane.publish(3, limited(100, 0.8))
    assert (await reclaim(plane)).marked_blocks == 10


@pytest.mark.parametrize(
    ("step", "steps"), [({"step_size": 4}, 4), ({"step_percentage": 5}, 4), ({}, 1)], ids=str
)
async def test_a_run_goes_in_steps(plane, monkeypatch, step, steps):
    plane.publish(2, limited(100, 0.8, **step))
    await filled(plane)
    measured = []
    read = reclaim_group.read_usage

    async def counting(connection, numbers):
        measured.append(numbers)
        return await read(connection, numbers)

    monkeypatch.setattr(reclaim_group, "read_usage", counting)
    assert (await reclaim(plane)).marked_blocks == 15
    assert len(measured) == steps + 3, "at first, before each step, when nothing was left, at the end"


@pytest.mark.one_shard
async def test_the_oldest_of_all_instances_go_first(plane):
    plane.publish(2, limited(100, 0.8), instance("model-b", 0xB))
    for number, keys in enumerate(CHAINS[:9]):
        await plane.write(keys, "model-a" if number % 3 else "model-b")
    for name in ("model-a", "model-b"):
        age(plane, CHAINS, name)
    assert (await reclaim(plane)).marked_blocks == 15
    (report,) = reports(plane)
    assert report.by_instance == {"model-b": [10, 10 * KIB], "model-a": [5, 5 * KIB]}
    assert await served(plane, CHAINS[0], "model-b") == []
    assert await served(plane, CHAINS[1]) == CHAINS[1][:5]


@pytest.mark.parametrize(
    ("budget", "given"),
    [
        (ReclaimBudget.GROUP_LRU, {"model-a": 15}),
        (ReclaimBudget.USAGE_PROPORTIONAL, {"model-a": 10, "model-b": 5}),
        (ReclaimBudget.FIXED, {"model-a": 7, "model-b": 8}),
    ],
)
async def test_budgets_say_what_each_instance_gives(plane, budget, given):
    plane.publish(2, limited(100, 0.8, budget=budget), instance("model-b", 0xB))
    for keys in CHAINS[:6]:
        await plane.write(keys)
    for keys in CHAINS[6:9]:
        await plane.write(keys, "model-b")
    for name in ("model-a", "model-b"):
        age(plane, CHAINS, name)
    await reclaim(plane)
    (report,) = reports(plane)
    assert {name: blocks for name, (blocks, _) in report.by_instance.items()} == given


async def test_a_request_takes_five_percent_and_not_more(plane):
    plane.publish(2, limited(1000, 0.8))
    await filled(plane)
    ask(plane, percent=5.0, by="somebody")
    assert (await reclaim(plane)).marked_blocks == 5
    (report,) = reports(plane)
    assert (report.trigger, report.chosen_blocks) == (Trigger.REQUEST, 5)
    assert report.request is not None and report.request["by"] == "somebody"
    await finish(plane)
    (report,) = reports(plane)
    assert (report.state, report.stop, report.freed_blocks) == (RunState.DONE, "enough", 5)


@pytest.mark.parametrize(
    ("wanted", "blocks", "stop"),
    [
        ({"blocks": 12}, 12, "enough"),
        ({"bytes": 12 * KIB - 1}, 12, "enough"),
        ({"bytes": 12 * KIB + 1}, 13, "enough"),
        ({"blocks": 500}, 90, "nothing_left"),
        ({"idle_seconds": 3600}, 90, "enough"),
        ({"idle_seconds": 3600, "blocks": 12}, 12, "enough"),
        ({"idle_seconds": 10**9}, 0, "enough"),
        ({}, 0, "enough"),
    ],
)
async def test_what_somebody_asks_for_goes(plane, wanted, blocks, stop):
    plane.publish(2, limited(1000, 0.8))
    await filled(plane)
    ask(plane, **wanted)
    assert (await reclaim(plane)).marked_blocks == blocks
    (report,) = reports(plane)
    assert (report.chosen_blocks, report.stop) == (blocks, stop)


async def test_a_request_without_an_amount_goes_down_to_the_low_marks(plane):
    plane.publish(2, limited(92, 1.0, low_watermark_ratio=0.5))
    await filled(plane)
    assert (await reclaim(plane)).marked == {}
    ask(plane)
    assert (await reclaim(plane)).marked_blocks == 44


async def test_a_request_may_be_for_one_instance(plane):
    plane.publish(2, limited(1000), instance("model-b", 0xB))
    await filled(plane, 3)
    await plane.write(CHAINS[5], "model-b")
    ask(plane, instance_id="model-b", blocks=100)
    assert (await reclaim(plane)).marked_blocks == 10
    assert await served(plane, KEYS[:30]) == KEYS[:30]


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        ({"instance_id": "nobody"}, "instance nobody is not in group default"),
        ({"storage": "nowhere"}, "storage nowhere does not exist"),
        ({"group": "none"}, "group none does not exist"),
    ],
)
async def test_a_request_that_fits_nothing_fails(plane, wanted, detail):
    await filled(plane, 3)
    ask(plane, blocks=5, **wanted)
    assert (await reclaim(plane)).marked == {}
    (report,) = reports(plane)
    assert (report.state, report.detail) == (RunState.FAILED, detail)
    assert redis_of(plane).hlen(keyspace.RECLAIM_REQUESTS) == 0


async def test_a_request_that_was_cancelled_takes_nothing(plane):
    await filled(plane, 3)
    ask(plane, blocks=5)
    redis_of(plane).sadd(keyspace.RECLAIM_CANCELS, "00000000000000aa", "00000000000000bb")
    assert (await reclaim(plane)).marked == {}
    (report,) = reports(plane)
    assert (report.state, report.stop) == (RunState.CANCELLED, "cancelled")
    await reclaim(plane)
    assert redis_of(plane).scard(keyspace.RECLAIM_CANCELS) == 0


async def test_blocks_older_than_their_time_to_live_go_without_a_mark(plane):
    plane.publish(2, limited(1000, policy=ReclaimPolicy.TTL, ttl_seconds=3600))
    await filled(plane, 3)
    await plane.write(CHAINS[5])
    assert (await reclaim(plane)).marked_blocks == 30
    (report,) = reports(plane)
    assert (report.trigger, report.stop) == (Trigger.TTL, "enough")
    assert await served(plane, CHAINS[5]) == CHAINS[5]


async def test_the_marks_of_a_type_take_from_that_type(plane):
    base = limited(1000)
    plane.publish(2, replace(base, quota=Quota(1000 * KIB, {StorageType.NFS: 100 * KIB})))
    await filled(plane)
    assert (await reclaim(plane)).marked_blocks == 15
    (report,) = reports(plane)
    assert [one["scope"] for one in report.scopes] == ["storage_type"]


async def used(plane: DataPlane, keys: list[int], times: int) -> None:
    for _ in range(times):
        await plane.match(keys)
        plane.index.recency.count_for(plane.mirror.current)
        await plane.index.recency.flush()


async def test_what_is_used_least_goes_first(plane):
    plane.publish(2, limited(100, 0.8, policy=ReclaimPolicy.LFU))
    await plane.session()
    plane.index.recency.count_for(plane.mirror.current)
    await filled(plane)
    for keys, times in zip(CHAINS[:9], [5, 5, 0, 5, 1, 9, 9, 9, 9], strict=True):
        await used(plane, keys, times)
    # By age the order would now be that of their last uses: 3, 1, 2, 4, 5 …
    age(plane, CHAINS)
    assert (await reclaim(plane)).marked_blocks == 15
    assert await served(plane, CHAINS[2]) == []
    assert len(await served(plane, CHAINS[4])) == 5
    for keys in (*CHAINS[:2], CHAINS[3], *CHAINS[5:9]):
        assert await served(plane, keys) == keys
    (report,) = reports(plane)
    assert report.policy == "lfu"
    ask(plane, blocks=20)
    await reclaim(plane)
    # Of those used about as often the coldest go.
    assert await served(plane, [*CHAINS[4], *CHAINS[0], *CHAINS[3]]) == CHAINS[3]
    assert len(await served(plane, CHAINS[1])) == 5
    await finish(plane)
    entry = plane.mirror.current.instances["model-a"]
    for shard in range(entry.shards):
        base = keyspace.instance(entry.number, shard)
        names = set(plane.client.zrange(keyspace.uses(base), 0, -1))
        assert names <= set(plane.client.hkeys(keyspace.runs(base))), "uses of runs that are gone"


async def test_uses_of_other_groups_are_not_counted(plane):
    await filled(plane, 3)
    await used(plane, CHAINS[0], 3)
    entry = plane.mirror.current.instances["model-a"]
    for shard in range(entry.shards):
        assert plane.client.zcard(keyspace.uses(keyspace.instance(entry.number, shard))) == 0
