"""When reclaim begins and how much it takes: the rules of DESIGN 6 and WIRE.md A, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvcm_platform.core.reclaim.marks import Demand, Mark, ReclaimUsage, Scope, Subject, demands, mark_of
from kvcm_platform.core.registry import (
    MetaIndexerSettings,
    MigrationPolicy,
    Quota,
    ReclaimSettings,
    Registry,
)
from kvcm_platform.core.types import Retention, StorageType
from tests.support.data_plane import group, instance, storage

OWN, OTHER = 1, 2
NFS, DISK, POOL = 1, 2, 3
THE_GROUP = Subject(Scope.GROUP, "default")


@pytest.mark.parametrize(
    ("settings", "limit", "expected"),
    [
        # A ratio: the low mark is five points of the limit lower, or a tenth of the high one if less.
        ({"used_ratio": 0.8}, 1000, Mark(800, 750, 800)),
        ({"used_ratio": 0.3}, 1000, Mark(300, 270, 300)),
        ({"used_ratio": 0.82, "low_watermark_ratio": 0.78}, 12_500, Mark(10_250, 9750, 10_250)),
        # 0.8 of 32 KiB is 26,214.4 bytes: 26,215 are the first that are over, 24,576 the most that may stay.
        ({"used_ratio": 0.8}, 32_768, Mark(26_215, 24_576, 26_215)),
        # 0.29 x 100 is a little more than 29 in binary; the mark is 29 for all that.
        ({"used_ratio": 0.29}, 100, Mark(29, 26, 29)),
        # At exactly 1 the limit itself counts as reached.
        ({"used_ratio": 1.0}, 1000, Mark(1000, 950, 1000)),
        # Above 1: never by this trigger, so only a limit below what is used acts.
        ({"used_ratio": 3.2}, 1000, Mark(1000, 950, 1001)),
        ({"used_ratio": 3.2, "low_watermark_ratio": 0.5}, 1000, Mark(1000, 500, 1001)),
        ({"used_ratio": 3.2, "low_watermark_ratio": 2.0}, 1000, Mark(1000, 950, 1001)),
        # used_bytes counts where there is no ratio, and then only.
        ({"used_ratio": 0.0, "used_bytes": 400}, 1000, Mark(400, 380, 400)),
        ({"used_ratio": 0.8, "used_bytes": 400}, 1000, Mark(800, 750, 800)),
        ({"used_ratio": 0.0, "used_bytes": 5000}, 1000, Mark(1000, 950, 1001)),
        ({"used_ratio": 0.0, "used_bytes": 400, "low_watermark_ratio": 0.2}, 1000, Mark(400, 200, 400)),
        ({"used_ratio": 0.0, "used_bytes": 400, "low_watermark_ratio": 0.6}, 1000, Mark(400, 380, 400)),
        # Neither: the limit itself.
        ({"used_ratio": 0.0}, 1000, Mark(1000, 950, 1001)),
        # Nothing may stay.
        ({"used_ratio": 0.8}, 0, Mark(0, 0, 1)),
    ],
)
def test_marks_of_a_limit(settings: dict[str, Any], limit: int, expected: Mark) -> None:
    reclaim = ReclaimSettings(**settings)
    assert mark_of(reclaim, limit, used_bytes=reclaim.used_bytes) == expected


def registry(**changes: Any) -> Registry:
    """A group over an nfs, a 3FS and a pool, with one instance, and another group beside it."""
    places = [
        storage(),
        storage(name="disk", number=DISK, type=StorageType.HF3FS),
        storage(name="pool", number=POOL, type=StorageType.TAIR_MEMPOOL, lost_numbers=(30, 31)),
    ]
    names = tuple(place.name for place in places)
    own = group(storage_candidates=names, **{"quota": Quota(1000), "reclaim": ReclaimSettings(), **changes})
    other = replace(own, name="other", number=OTHER)
    engine = instance()
    return Registry(
        1,
        {place.name: place for place in places},
        {one.name: one for one in (own, other)},
        {engine.instance_id: engine},
    )


def asked(known: Registry, usage: ReclaimUsage, name: str = "default", **options: Any) -> list[Demand]:
    return demands(known, known.groups[name], usage, **options)


@pytest.mark.parametrize(
    ("settings", "used", "need"),
    [
        ({"used_ratio": 0.8}, 799, 0),
        ({"used_ratio": 0.8}, 800, 50),
        ({"used_ratio": 0.8}, 1200, 450),
        ({"used_ratio": 1.0}, 999, 0),
        ({"used_ratio": 1.0}, 1000, 50),
        ({"used_ratio": 3.2}, 1000, 0),
        ({"used_ratio": 3.2}, 1001, 51),
        ({"used_ratio": 0.0}, 1000, 0),
        ({"used_ratio": 0.0}, 1010, 60),
        ({"used_ratio": 0.0, "used_bytes": 600}, 599, 0),
        ({"used_ratio": 0.0, "used_bytes": 600}, 600, 30),
    ],
)
def test_what_a_group_gives_back(settings: dict[str, Any], used: int, need: int) -> None:
    known = registry(reclaim=ReclaimSettings(**settings))
    found = asked(known, ReclaimUsage(bytes_of={(OWN, NFS): used, (OTHER, NFS): 5000}))
    assert [(demand.scope, demand.subject, demand.need) for demand in found] == (
        [(Scope.GROUP, "default", need)] if need else []
    )


def test_what_was_promised_to_writers_counts() -> None:
    known = registry()
    usage = ReclaimUsage({(OWN, NFS): 500, (OWN, 99): 200}, {OWN: 110, OTHER: 900})
    (demand,) = asked(known, usage)
    assert (demand.used, demand.limit, demand.high, demand.low, demand.need) == (810, 1000, 800, 750, 60)
    assert not demand.is_over_limit


def test_without_capacity_everything_goes() -> None:
    known = registry(quota=Quota(0, {StorageType.NFS: 0}))
    found = asked(known, ReclaimUsage({(OWN, NFS): 70, (OWN, DISK): 30}))
    assert [(demand.scope, demand.need, demand.is_over_limit) for demand in found] == [
        (Scope.STORAGE_TYPE, 70, True),
        (Scope.GROUP, 100, True),
    ]
    assert asked(known, ReclaimUsage()) == []


def test_a_type_with_a_quota_of_its_own() -> None:
    """80 % of 100 is 80, five points lower 75; what lies elsewhere does not raise what is asked of it."""
    known = registry(quota=Quota(100_000, {StorageType.TAIR_MEMPOOL: 100, StorageType.HF3FS: 100}))
    usage = ReclaimUsage(
        {(OWN, POOL): 40, (OWN, 30): 30, (OWN, NFS): 9000, (OWN, DISK): 79, (OTHER, 31): 500},
        reserved_by_type={(OWN, StorageType.TAIR_MEMPOOL): 10, (OTHER, StorageType.HF3FS): 50},
    )
    (demand,) = asked(known, usage)
    assert demand == Demand(
        Scope.STORAGE_TYPE, "tair_mempool", 80, 100, 80, 75, 5, numbers=frozenset({POOL, 30, 31})
    )


def test_used_bytes_are_the_groups_alone() -> None:
    """Of a type the limit itself is the mark then: 95 stay of 100, once there are more than 100."""
    known = registry(
        quota=Quota(10_000, {StorageType.NFS: 100}), reclaim=ReclaimSettings(used_ratio=0, used_bytes=50)
    )
    found = asked(known, ReclaimUsage({(OWN, NFS): 100}))
    assert [(demand.scope, demand.low, demand.need) for demand in found] == [(Scope.GROUP, 47, 53)]
    found = asked(known, ReclaimUsage({(OWN, NFS): 101}))
    assert [(demand.scope, demand.need) for demand in found] == [(Scope.STORAGE_TYPE, 6), (Scope.GROUP, 54)]


def with_storage(known: Registry, name: str, **changes: Any) -> Registry:
    changed = replace(known.storages[name], **changes)
    return replace(known, storages={**known.storages, name: changed})


def test_groups_give_their_parts_of_a_storage() -> None:
    """100 too many of 1000: who has 600 gives 60, who has 400 gives 40; together no byte too few."""
    known = with_storage(registry(quota=Quota(100_000)), "nfs_01", high_bytes=950, low_bytes=900)
    usage = ReclaimUsage({(OWN, NFS): 600, (OTHER, NFS): 400, (OTHER, DISK): 7000}, {OWN: 500})
    (own,), (other,) = asked(known, usage), asked(known, usage, "other")
    assert (own.scope, own.subject, own.used, own.need) == (Scope.STORAGE, "nfs_01", 1000, 60)
    assert (other.need, other.numbers) == (40, frozenset({NFS}))
    thirds = ReclaimUsage({(OWN, NFS): 333, (OTHER, NFS): 667})
    assert asked(known, thirds)[0].need + asked(known, thirds, "other")[0].need >= 100


def test_a_storage_below_its_mark_without_one_or_leaving_asks_nothing() -> None:
    known, full = registry(quota=Quota(100_000)), ReclaimUsage({(OWN, NFS): 1000})
    assert asked(with_storage(known, "nfs_01", high_bytes=1001, low_bytes=900), full) == []
    assert asked(known, full) == []
    gone = with_storage(known, "nfs_01", high_bytes=950, low_bytes=900, is_leaving=True)
    assert asked(gone, full) == []
    others = ReclaimUsage({(OTHER, NFS): 1000})
    assert asked(with_storage(known, "nfs_01", high_bytes=950, low_bytes=900), others) == []


@pytest.mark.parametrize(
    ("policy", "target", "need"),
    [
        ({}, {}, 0),
        # What nobody moves has to go, and so has what cannot move, or stays in spite of its copy.
        ({"is_enabled": False}, {}, 100),
        ({"retention": Retention.KEEP_BOTH}, {}, 100),
        ({"target": "nowhere"}, {}, 100),
        ({}, {"is_available": False}, 100),
        ({"source": "disk", "target": "pool"}, {}, 100),
    ],
)
def test_blocks_that_are_to_move_on_are_not_dropped_for_the_mark_of_a_storage(
    policy: dict[str, Any], target: dict[str, Any], need: int
) -> None:
    moves = MigrationPolicy(**{"source": "nfs_01", "target": "disk", **policy})
    known = with_storage(
        registry(quota=Quota(100_000), migration=moves), "nfs_01", high_bytes=950, low_bytes=900
    )
    known = with_storage(known, "disk", **target)
    full = ReclaimUsage({(OWN, NFS): 1000})
    assert [demand.need for demand in asked(known, full)] == ([need] if need else [])
    # A Start was refused: it needs room now.
    refused = {Subject(Scope.STORAGE, "nfs_01"): 0}
    assert [demand.need for demand in asked(known, full, refused=refused)] == [100]


def test_keys_of_an_instance() -> None:
    """WIRE.md A: keys / max_key_count >= used_percentage starts reclaim. 75 of 100 stay."""
    known = registry(quota=Quota(100_000), meta_indexer=MetaIndexerSettings(max_key_count=100))
    number = known.instances["model-a"].number
    assert asked(known, ReclaimUsage(blocks_of={(OWN, number): 79})) == []
    (demand,) = asked(known, ReclaimUsage(blocks_of={(OWN, number): 80}))
    assert demand == Demand(Scope.KEYS, "model-a", 80, 100, 80, 75, 5, instance_number=number)


def test_a_refused_start_makes_room_below_the_high_mark() -> None:
    known = registry(quota=Quota(1000, {StorageType.NFS: 1000}))
    usage = ReclaimUsage({(OWN, NFS): 770})
    assert asked(known, usage) == []
    assert [(d.scope, d.need) for d in asked(known, usage, refused={THE_GROUP: 0})] == [(Scope.GROUP, 20)]
    low = ReclaimUsage({(OWN, NFS): 750})
    assert asked(known, low, refused={THE_GROUP: 0}) == []


@pytest.mark.parametrize(
    ("wanted", "need"),
    [
        (0, 20),
        (250, 20),  # what the low mark at 750 leaves
        (400, 170),  # 600 may stay
        (1000, 770),
        (1001, 20),  # fits in no case: as if nobody knew how much it was
    ],
)
def test_a_refused_start_gets_the_room_that_it_needs(wanted: int, need: int) -> None:
    known = registry(quota=Quota(1000))
    usage = ReclaimUsage({(OWN, NFS): 770})
    for pressed in ({"refused": {THE_GROUP: wanted}}, {"begun": {THE_GROUP: wanted}}):
        (found,) = asked(known, usage, **pressed)
        assert (found.need, found.low) == (need, 770 - need)


def test_a_start_larger_than_the_low_mark_leaves_is_served_below_it() -> None:
    """Half of the limit is used, far below both marks; 600 more need 100 of it."""
    known = registry(quota=Quota(1000))
    usage = ReclaimUsage({(OWN, NFS): 500})
    assert [demand.need for demand in asked(known, usage, refused={THE_GROUP: 600})] == [100]
    assert asked(known, usage, refused={THE_GROUP: 1200}) == []


def test_a_ratio_above_one_gives_nothing_for_a_refusal() -> None:
    known = registry(reclaim=ReclaimSettings(used_ratio=3.2))
    usage = ReclaimUsage({(OWN, NFS): 1000})
    assert asked(known, usage, refused={THE_GROUP: 0}) == []
    assert [demand.need for demand in asked(known, usage, begun={THE_GROUP: 0})] == [50]


def test_what_scopes_take_counts_for_all_that_hold_it() -> None:
    known = registry(
        quota=Quota(1000, {StorageType.NFS: 500}), meta_indexer=MetaIndexerSettings(max_key_count=100)
    )
    number = known.instances["model-a"].number
    found = asked(known, ReclaimUsage({(OWN, NFS): 450, (OWN, DISK): 400}, blocks_of={(OWN, number): 85}))
    assert [(demand.scope, demand.need) for demand in found] == [
        (Scope.STORAGE_TYPE, 75),
        (Scope.KEYS, 10),
        (Scope.GROUP, 100),
    ]
    taken = {(number, NFS): (7, 70), (number, DISK): (1, 10), (number + 1, NFS): (2, 20)}
    assert [demand.left(taken) for demand in found] == [0, 2, 0]
    taken = {(number, NFS): (7, 70)}
    assert [demand.left(taken) for demand in found] == [5, 3, 30]


def test_one_group_is_read_again() -> None:
    before = ReclaimUsage(
        {(OWN, NFS): 5, (OTHER, NFS): 6}, {OWN: 1}, {(OWN, StorageType.NFS): 1}, {(OWN, 7): 3}
    )
    after = before.updated(ReclaimUsage({(OWN, DISK): 2}), [OWN])
    assert after == ReclaimUsage({(OWN, DISK): 2, (OTHER, NFS): 6})
