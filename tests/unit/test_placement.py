"""Which storages a write tries, and in which order (WIRE.md 3.7, DESIGN 5)."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.placement import in_order, write_candidates
from kvcm_platform.core.registry import GroupEntry, Quota, Registry, StorageEntry
from kvcm_platform.core.types import Placement, PreferStrategy, StorageType

TYPES = {
    "3fs": StorageType.HF3FS,
    "mooncake": StorageType.MOONCAKE,
    "tair_mempool": StorageType.TAIR_MEMPOOL,
    "vcns_3fs": StorageType.VCNS_HF3FS,
    "nfs": StorageType.NFS,
}
DRAWS = 4000


def storage(name: str, kind: StorageType = StorageType.NFS, number: int = 1, **members) -> StorageEntry:
    return StorageEntry(name, number, kind, members.pop("spec", {}), **members)


ONE_OF_EACH = [storage(name, kind, number) for number, (name, kind) in enumerate(TYPES.items(), 1)]


def group(*candidates: str, **members) -> GroupEntry:
    return GroupEntry("default", 1, candidates, Quota(1), **members)


def tried(group: GroupEntry, *storages: StorageEntry) -> list[str]:
    registry = Registry(storages={one.name: one for one in storages})
    return [one.name for one in write_candidates(registry, group)]


@pytest.mark.parametrize("name", TYPES)
def test_always_leaves_one_kind_and_prefer_puts_it_first(name):
    others = [one for one in TYPES if one != name]
    order = [one.name for one in in_order(ONE_OF_EACH, PreferStrategy(f"prefer_{name}"))]
    assert order == [name, *others]
    assert [one.name for one in in_order(ONE_OF_EACH, PreferStrategy(f"always_{name}"))] == [name]


def test_without_a_preference_the_order_of_the_group_stays():
    assert in_order(ONE_OF_EACH, PreferStrategy.UNSPECIFIED) == ONE_OF_EACH


def test_a_pool_on_disks_is_another_kind_than_one_in_memory():
    memory = storage("memory", StorageType.TAIR_MEMPOOL, 1, spec={"media_type": 2})
    disks = storage("disks", StorageType.TAIR_MEMPOOL, 2, spec={"media_type": 5})
    strategy = PreferStrategy.ALWAYS_TAIR_MEMPOOL_SSD
    assert in_order([memory, disks], strategy) == [disks]
    assert in_order([memory, disks], PreferStrategy.PREFER_TAIR_MEMPOOL_SSD) == [disks, memory]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"is_enabled": False}, "disabled"),
        ({"is_draining": True}, "draining"),
        ({"is_available": False, "unavailable_reason": "no route to host"}, "no route to host"),
        ({"is_full": True, "unavailable_reason": "No space left on device"}, "No space left on device"),
        ({"is_full": True}, "full"),
        ({"is_leaving": True}, "being removed"),
    ],
)
def test_what_cannot_take_blocks_is_passed_over_and_named(state, reason):
    first, second = storage("one", **state), storage("two", number=2)
    assert tried(group("one", "two"), first, second) == ["two"]
    with pytest.raises(DomainError, match=re.escape(f"one: {reason}")) as refused:
        tried(group("one"), first)
    assert refused.value.code is Code.IO_ERROR


def test_the_error_names_each_candidate_with_its_own_reason():
    wanted = group("one", "gone", "pool", prefer_strategy=PreferStrategy.ALWAYS_TAIR_MEMPOOL)
    pool = storage("pool", StorageType.TAIR_MEMPOOL, 2, is_draining=True)
    with pytest.raises(DomainError) as refused:
        tried(wanted, storage("one"), pool)
    message = str(refused.value)
    assert "pool: draining" in message
    assert "gone: does not exist" in message
    assert "one: not of the type of always_tair_mempool" in message


def shares(wanted: GroupEntry, *storages: StorageEntry) -> dict[str, float]:
    firsts = Counter(tried(wanted, *storages)[0] for _ in range(DRAWS))
    return {name: count / DRAWS for name, count in firsts.items()}


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ({}, {}, 0.5),
        ({"weight": 3}, {}, 0.75),
        ({"free_bytes": 300}, {"free_bytes": 100}, 0.75),
        ({"weight": 1, "free_bytes": 300}, {"weight": 9, "free_bytes": 100}, 0.25),
        ({"weight": 3, "free_bytes": 1}, {"weight": 1}, 0.75),  # not known of both: it does not count
    ],
)
def test_balanced_chooses_by_weight_and_free_space(one, two, expected):
    found = shares(
        group("one", "two", placement=Placement.BALANCED),
        storage("one", **one),
        storage("two", number=2, **two),
    )
    # Five standard deviations of a share of DRAWS draws are at most 0.04.
    assert found["one"] == pytest.approx(expected, abs=0.04)


def test_balanced_keeps_to_the_preference_and_leaves_weight_nothing_for_the_end():
    wanted = group(
        "nfs", "a", "b", placement=Placement.BALANCED, prefer_strategy=PreferStrategy.PREFER_MOONCAKE
    )
    a = storage("a", StorageType.MOONCAKE, 2, weight=0)
    b = storage("b", StorageType.MOONCAKE, 3)
    heavy = storage("nfs", weight=1000)
    assert all(tried(wanted, a, b, heavy) == ["b", "a", "nfs"] for _ in range(50))


def test_ordered_takes_no_draw():
    storages = [storage("one", weight=1), storage("two", number=2, weight=1000)]
    assert all(tried(group("one", "two"), *storages) == ["one", "two"] for _ in range(50))
