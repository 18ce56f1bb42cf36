"""Segments of a memory pool, as its checks see them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import redis
from django.utils import timezone

from apps.audit.models import Event
from apps.common.redis_client import blocks_client
from apps.storages.models import Storage, StorageHealthChange, StorageIncident, StorageSegment
from apps.storages.services import departures_settle, storage_add
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import StorageSettings
from kvcm_platform.storage.backend import SegmentSeen
from tests.apps.storages.looks import check, occupy, published, vacate
from tests.factories.actors import ADMIN

pytestmark = pytest.mark.django_db(transaction=True)
LIMITS = HealthLimits(pool_lost_seconds=300)


def seen(node: str, life: str = "1", size: int = 1 << 20) -> SegmentSeen:
    return SegmentSeen(node, f"{node}-{life}", f"10.0.0.1:{ord(node)}", size, 4096)


class Pool:
    """A pool whose checks the test makes up, at times that it makes up."""

    def __init__(self) -> None:
        storage_add(
            acting=ADMIN,
            name="pool",
            kind=StorageType.TAIR_MEMPOOL,
            spec={"domain": "127.0.0.1:1"},
            settings=StorageSettings(is_enabled=False),
        )
        Storage.objects.update(is_enabled=True)
        self.now: datetime = timezone.now()

    def check(self, *segments: SegmentSeen, seconds: float = 5.0, is_ok: bool | None = None) -> bool:
        self.now += timedelta(seconds=seconds)
        is_ok = bool(segments) if is_ok is None else is_ok
        return check("pool", is_ok, at=self.now, limits=LIMITS, segments=segments)

    def states(self) -> dict[str, str]:
        return {row.node_id: row.state for row in StorageSegment.objects.all()}

    def turns(self) -> list[tuple[str, str]]:
        rows = StorageHealthChange.objects.order_by("id").exclude(node_id="")
        return list(rows.values_list("event", "node_id"))


def test_each_segment_has_a_number_of_its_own(index: redis.Redis) -> None:
    pool = Pool()
    number = Storage.objects.get().number
    pool.check(seen("a"), seen("b"))
    entry = published(index, "pool")
    assert [(s.node_id, s.segment_id, s.is_available) for s in entry.segments] == [
        ("a", "a-1", True),
        ("b", "b-1", True),
    ]
    numbers = {s.number for s in entry.segments}
    assert len(numbers) == 2
    assert number not in numbers
    assert entry.served_numbers == tuple(sorted(numbers))
    pool.check(seen("a"), seen("b"), seen("c"))
    assert len(published(index, "pool").segments) == 3
    assert pool.turns() == [("segment_found", node) for node in "abc"]


def test_one_of_three_that_is_away_takes_its_blocks_along_and_no_others(index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"), seen("b"), seen("c"))
    pool.check(seen("a"), seen("c"))
    assert pool.states()["b"] == "available", "a single hiccup does not count"
    assert pool.check(seen("a"), seen("c")), "the pool goes on"
    entry = published(index, "pool")
    assert [(s.node_id, s.is_available) for s in entry.segments] == [("a", True), ("b", False), ("c", True)]
    assert entry.is_writable
    assert StorageIncident.objects.get().kind == "segment_unavailable"
    pool.check(seen("a"), seen("b"), seen("c"))
    assert all(s.is_available for s in published(index, "pool").segments), "back when it answers"
    assert StorageIncident.objects.get().ended_at == pool.now
    assert pool.turns()[-2:] == [("segment_unavailable", "b"), ("segment_returned", "b")]


def test_all_that_are_away_make_the_pool_unavailable_and_none_is_given_up(index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"), seen("b"))
    for _ in range(100):
        pool.check()
    assert not published(index, "pool").is_served
    assert pool.states() == {"a": "unavailable", "b": "unavailable"}, "nobody is left to say who is missing"
    for _ in range(2):
        pool.check(seen("a"), seen("b"))
    entry = published(index, "pool")
    assert entry.is_writable
    assert len(entry.served_numbers) == 2


def test_a_node_that_returns_with_other_memory_lost_what_it_held(index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"), seen("b"))
    old = StorageSegment.objects.get(node_id="b").number
    occupy(index, Storage.objects.get(), number=old)
    pool.check(seen("a"), seen("b", "2"))
    entry = published(index, "pool")
    assert entry.lost_numbers == (old,)
    assert [s.segment_id for s in entry.segments] == ["a-1", "b-2"]
    assert old not in entry.served_numbers
    later = pool.now + timedelta(seconds=10)
    assert departures_settle(client=blocks_client(), now=later) == [], "its blocks are not cleared yet"
    vacate(index)
    assert departures_settle(client=blocks_client(), now=later) == ["pool"]
    assert published(index, "pool").lost_numbers == ()
    assert not StorageSegment.objects.filter(number=old).exists()
    pool.check(seen("a"), seen("b", "2"), seen("c"))
    assert StorageSegment.objects.get(node_id="c").number > old, "no number is given twice"
    kinds = set(Event.objects.filter(subject="pool").values_list("kind", flat=True))
    assert {"storage.segment_found", "storage.segment_lost", "storage.segment_settled"} <= kinds


def test_one_that_stays_away_too_long_is_lost(index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"), seen("b"))
    for _ in range(61):
        pool.check(seen("a"))
    assert pool.states() == {"a": "available", "b": "lost"}
    old = StorageSegment.objects.get(node_id="b").number
    pool.check(seen("a"), seen("b"))
    fresh = StorageSegment.objects.exclude(state="lost").get(node_id="b")
    assert fresh.number != old, "its blocks were given up: it begins anew"
    assert published(index, "pool").lost_numbers == (old,)


def test_time_in_which_nobody_looked_does_not_count(index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"), seen("b"))
    pool.check(seen("a"))
    pool.check(seen("a"))
    pool.check(seen("a"), seconds=3600)
    assert pool.states()["b"] == "unavailable"
    for _ in range(30):
        pool.check(is_ok=False)  # the discovery fails: nothing is known of anybody
    pool.check(seen("a"))
    assert pool.states()["b"] == "unavailable"


def test_a_moved_address_is_published(index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"))
    moved = SegmentSeen("a", "a-1", "10.0.0.9:7", 1 << 20)
    pool.check(moved)
    assert published(index, "pool").segments[0].address == "10.0.0.9:7"


def test_a_node_whose_memory_is_new_at_each_check_takes_few_numbers(index: redis.Redis) -> None:
    pool = Pool()
    for life in range(720):
        pool.check(seen("a"), seen("b", f"{life}"))
    first, *_ = taken = found_at("b")
    assert [(at - first).total_seconds() for at in taken] == [
        0,
        5,
        10,
        70,
        190,
        430,
        910,
        1510,
        2110,
        2710,
        3310,
    ]
    assert pool.states()["a"] == "available"
    assert len(found_at("a")) == 1


def test_what_waits_is_said_and_used_when_its_time_has_come(index: redis.Redis) -> None:
    pool = Pool()
    for life in "123":
        pool.check(seen("a"), seen("b", life))
        assert Storage.objects.get().health_message == ""
    last = pool.now
    number = StorageSegment.objects.order_by("number").last().number
    pool.check(seen("a"), seen("b", "4"))
    entry = published(index, "pool")
    assert [segment.node_id for segment in entry.segments] == ["a"], "what it had is lost all the same"
    until = f"{last + timedelta(seconds=60):%H:%M:%S}"
    assert Storage.objects.get().health_message == (
        f"node b came with new memory 3 times within 60 min: what it has now is used from {until} UTC on"
    )
    pool.check(seen("a"), seen("b", "5"), seen("c"))
    assert [s.node_id for s in published(index, "pool").segments] == ["a", "c"], "others do not wait"
    pool.now = last + timedelta(seconds=60)
    pool.check(seen("a"), seen("b", "5"), seen("c"), seconds=0)
    assert [s.segment_id for s in published(index, "pool").segments] == ["a-1", "c-1", "b-5"]
    assert StorageSegment.objects.get(segment_id="b-5").number == number + 2, "the fourth life took none"
    assert Storage.objects.get().health_message == ""


def test_lives_are_counted_after_their_rows_are_gone(index: redis.Redis) -> None:
    """Segments settle within seconds; who counts them anew after a crash must count the same."""
    pool = Pool()
    for life in "123":
        pool.check(seen("a"), seen("b", life))
    departures_settle(client=blocks_client(), now=pool.now + timedelta(seconds=10))
    assert StorageSegment.objects.filter(node_id="b").count() == 1
    pool.check(seen("a"), seen("b", "4"))
    assert not StorageSegment.objects.filter(segment_id="b-4").exists()


def test_a_node_that_was_calm_since_is_used_at_once(index: redis.Redis) -> None:
    pool = Pool()
    for life in "123":
        pool.check(seen("a"), seen("b", life))
    pool.check(seen("a"), seen("b", "3"), seconds=120)
    pool.check(seen("a"), seen("b", "4"))
    assert [s.segment_id for s in published(index, "pool").segments] == ["a-1", "b-4"]


def found_at(node: str) -> list[datetime]:
    turns = StorageHealthChange.objects.filter(event="segment_found", node_id=node).order_by("id")
    return list(turns.values_list("at", flat=True))
