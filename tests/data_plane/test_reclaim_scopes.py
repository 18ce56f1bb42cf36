"""Limits narrower than a group: types, storages, keys; and where blocks are taken first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from kvcm_platform.core.reclaim.marks import Scope, Subject
from kvcm_platform.core.reclaim.runs import Trigger
from kvcm_platform.core.registry import GroupEntry, MetaIndexerSettings, Quota
from kvcm_platform.core.types import PreferStrategy, StorageType
from kvcm_platform.duties import reclaim as rounds
from kvcm_platform.index.waking import Waker
from tests.support.copies import Tiers, tiers
from tests.support.data_plane import UNLIMITED, DataPlane, group, instance, storage
from tests.support.reclaims import KIB, age, ask, limited, reclaim, reports, served

CHAINS = [list(range(at, at + 10)) for at in range(1, 200, 10)]
FAST, SLOW = CHAINS[:9:2], CHAINS[1:9:2]
"""Chains in turns: the coldest on `fast`, the next on `slow`, and so on."""


@pytest.fixture
async def both(empty_valkey, client, tmp_path, shards) -> AsyncIterator[Tiers]:
    async with tiers(empty_valkey.url, client, tmp_path, shards=shards) as built:
        for number, keys in enumerate(CHAINS[:9]):
            await written(built, keys, "fast" if number % 2 == 0 else "slow")
        age(built.plane, CHAINS)
        yield built


async def written(built: Tiers, keys: Sequence[int], name: str) -> None:
    prefer = PreferStrategy.PREFER_3FS if name == "fast" else PreferStrategy.PREFER_NFS
    built.publish(replace(built.group, prefer_strategy=prefer))
    await built.plane.session()
    await built.plane.write(keys)


def settings(built: Tiers, entry: GroupEntry) -> GroupEntry:
    """The same group with other limits, its storages as they are."""
    return replace(built.group, quota=entry.quota, reclaim=entry.reclaim, meta_indexer=entry.meta_indexer)


async def gone(plane: DataPlane, chains: Sequence[Sequence[int]]) -> list[int]:
    """How many blocks of each chain are gone."""
    return [len(keys) - len(await served(plane, keys)) for keys in chains]


async def refused(built: Tiers, subjects: Sequence[Subject]) -> None:
    """As a process tells that has told of nothing for a while."""
    await Waker(built.index.connection).refused("default", subjects)


async def test_the_limit_of_a_type_takes_from_that_type_alone(both):
    # 40 KiB lie on `slow`: from 40 down to 30 of 40.
    both.publish(settings(both, limited(0, quota=Quota(UNLIMITED, {StorageType.NFS: 40 * KIB}))))
    assert (await reclaim(both.plane)).marked_blocks == 10
    assert await gone(both.plane, SLOW) == [10, 0, 0, 0]
    assert await gone(both.plane, FAST) == [0] * 5
    (report,) = reports(both.plane)
    assert report.by_storage == {"slow": [10, 10 * KIB]}
    assert [(one["scope"], one["subject"]) for one in report.scopes] == [("storage_type", "nfs")]


async def test_the_marks_of_a_storage_take_from_that_storage_alone(both):
    both.publish(replace(both.entries["fast"], high_bytes=50 * KIB, low_bytes=35 * KIB))
    assert (await reclaim(both.plane)).marked_blocks == 15
    assert await gone(both.plane, SLOW) == [0] * 4
    assert (await gone(both.plane, FAST))[:2] == [10, 5]
    (report,) = reports(both.plane)
    assert (report.trigger, report.by_storage) == (Trigger.WATERMARK, {"fast": [15, 15 * KIB]})
    assert (await reclaim(both.plane)).marked == {}


async def test_the_preferred_storage_gives_first_and_the_others_the_rest(both):
    both.publish(settings(both, limited(100, storage_unique_name="slow")))
    assert (await reclaim(both.plane)).marked_blocks == 15
    assert (await gone(both.plane, SLOW))[:2] == [10, 5]
    assert await gone(both.plane, FAST) == [0] * 5
    ask(both.plane, blocks=30)
    assert (await reclaim(both.plane)).marked_blocks == 30
    assert await gone(both.plane, SLOW) == [10] * 4
    assert (await gone(both.plane, FAST))[:2] == [5, 0]


async def test_a_preferred_storage_that_does_not_exist_is_no_filter(both):
    both.publish(settings(both, limited(100, storage_unique_name="nowhere")))
    assert (await reclaim(both.plane)).marked_blocks == 15


async def test_a_request_may_be_for_one_storage(both):
    ask(both.plane, storage="slow", percent=25.0)
    assert (await reclaim(both.plane)).marked_blocks == 10
    assert await gone(both.plane, SLOW) == [10, 0, 0, 0]


async def test_five_percent_of_one_storage_is_not_five_percent_of_all(both):
    ask(both.plane, storage="slow", percent=5.0)
    assert (await reclaim(both.plane)).marked_blocks == 2


async def test_groups_give_their_part_of_a_storage_that_they_share(both):
    both.publish(
        replace(both.group, name="other", number=2),
        instance("model-b", 0xB, group="other", group_number=2, shards=both.instance.shards),
    )
    await both.plane.session()
    await both.plane.write(CHAINS[10], "model-b")  # on `fast`, as the group of model-a
    age(both.plane, CHAINS, "model-b")
    # 60 KiB lie there, 10 of them the other group's: of 24 too much it gives 4.
    both.publish(replace(both.entries["fast"], high_bytes=60 * KIB, low_bytes=36 * KIB))
    summary = await reclaim(both.plane)
    assert {name: blocks for name, (blocks, _) in summary.marked.items()} == {"default": 20, "other": 4}
    assert (await reclaim(both.plane)).marked == {}


async def test_an_instance_at_its_key_count_gives_blocks(both):
    entry = limited(0, quota=Quota(UNLIMITED))
    keys = MetaIndexerSettings(max_key_count=100)
    both.publish(settings(both, replace(entry, meta_indexer=keys)))
    assert (await reclaim(both.plane)).marked_blocks == 15
    (report,) = reports(both.plane)
    assert report.scopes == [
        {"scope": "keys", "subject": "model-a", "used": 90, "limit": 100, "high": 80, "low": 75, "need": 15}
    ]
    assert await gone(both.plane, CHAINS[:3]) == [10, 5, 0]


async def test_what_a_start_was_refused_for_is_brought_down_below_the_high_mark(both):
    both.publish(settings(both, limited(100, 0.95)))
    await refused(both, [Subject(Scope.GROUP, "default")])
    assert (await reclaim(both.plane)).marked == {}, "at the low mark there is nothing to be done"
    both.publish(settings(both, limited(100, 0.95, low_watermark_ratio=0.6)))
    assert (await reclaim(both.plane)).marked == {}, "what was refused before is forgotten"
    await refused(both, [Subject(Scope.STORAGE_TYPE, "nfs"), Subject(Scope.GROUP, "default")])
    assert (await reclaim(both.plane)).marked_blocks == 30
    (report,) = reports(both.plane)
    assert report.trigger is Trigger.REFUSED


async def test_limits_that_overlap_take_no_more_than_the_largest_asks_for(both):
    entry = limited(100, quota=Quota(100 * KIB, {StorageType.NFS: 40 * KIB}))
    both.publish(settings(both, entry))
    # 10 of nfs go, of the 15 of the group 5 are left.
    assert (await reclaim(both.plane)).marked_blocks == 15
    assert (await gone(both.plane, SLOW))[0] == 10
    assert (await gone(both.plane, FAST))[0] == 5


async def test_a_group_keeps_out_of_anothers_blocks(plane):
    other = replace(limited(50), name="other", number=2)
    plane.publish(
        2,
        group(),
        storage("/tmp/nfs2", name="nfs_02", number=7),
        other,
        instance("model-b", 0xB, group="other", group_number=2),
    )
    await plane.session()
    for keys in CHAINS[:9]:
        await plane.write(keys)
    for keys in CHAINS[:4]:
        await plane.write(keys, "model-b")
    for name in ("model-a", "model-b"):
        age(plane, CHAINS, name)
    summary = await reclaim(plane)
    assert {name: blocks for name, (blocks, _) in summary.marked.items()} == {"other": 3}
    assert await gone(plane, CHAINS[:9]) == [0] * 9


async def test_what_another_process_took_of_a_storage_meanwhile_counts(both, monkeypatch):
    """Both saw that it is too full; the second one gets the lease when the first is through."""
    both.publish(replace(both.entries["fast"], high_bytes=50 * KIB, low_bytes=35 * KIB))
    firsts: list[int] = []

    async def tasks(self, usage, refused):
        found = await planned(self, usage, refused)
        if not firsts:
            firsts.append(0)
            firsts[0] = (await reclaim(both.plane)).marked_blocks
        return found

    planned = rounds.Round._tasks
    monkeypatch.setattr(rounds.Round, "_tasks", tasks)
    assert (await reclaim(both.plane)).marked == {}
    assert firsts == [15]
