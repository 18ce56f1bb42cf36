"""What is kept of checks: samples for charts, turns, incidents, and lost content that calls for a look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.audit.models import Event
from apps.common.redis_client import index_client
from apps.storages.models import Storage, StorageHealthChange, StorageHealthSample, StorageIncident
from apps.storages.selectors import storage_health_buckets
from apps.storages.services import content_checks_ask, history, history_prune, storage_update
from apps.storages.services.content import DROPPED_PAUSE_SECONDS
from apps.storages.tasks import check_storages
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.uris import MARKER
from kvcm_platform.index.storage_checks import check_states
from tests.apps.storages.looks import check, end_check
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def test_samples_in_buckets(tmp_path: Path) -> None:
    make_storage(tmp_path)
    for second, (is_ok, latency) in enumerate([(True, 2.0), (True, 4.0), (False, None), (False, 90.0)]):
        check("nfs_a", is_ok, at=NOW + timedelta(seconds=10 * second), latency_ms=latency)
    buckets = storage_health_buckets(
        name="nfs_a", since=NOW, until=NOW + timedelta(minutes=1), bucket_seconds=20
    )
    start = int(NOW.timestamp())
    assert [(b.at - start, b.checks, b.failures, b.min_ms, b.avg_ms, b.max_ms) for b in buckets] == [
        (0, 2, 0, 2.0, 3.0, 4.0),
        (20, 2, 2, 90.0, 90.0, 90.0),
    ]


def test_samples_stay_for_a_day(tmp_path: Path) -> None:
    make_storage(tmp_path)
    for hours in (0, 23, 25, 48):
        check("nfs_a", True, at=NOW - timedelta(hours=hours))
    assert history_prune(now=NOW) == 2
    assert StorageHealthSample.objects.count() == 2
    assert history_prune(now=NOW) == 0


def test_what_goes_up_and_down_all_day_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ROWS_AT_MOST", 3)
    make_storage(tmp_path)
    for minute in range(6):
        for is_ok in (False, False, False, True, True, True):
            check("nfs_a", is_ok, at=NOW + timedelta(minutes=minute))
    history_prune(now=NOW)
    assert StorageHealthChange.objects.count() == 3
    assert StorageHealthChange.objects.latest("id").event == "available"
    newest = StorageIncident.objects.order_by("-id").values_list("started_at", flat=True)
    assert [at.minute for at in newest] == [5, 4, 3]


def test_a_turn_is_an_event_of_the_groups_it_concerns(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group(storage_candidates=("nfs_a",))
    for _ in range(3):
        check("nfs_a", False, "it hangs.")
    event = Event.objects.first()
    assert (event.kind, event.severity, event.subject) == ("storage.unavailable", "critical", "nfs_a")
    assert event.message == "Storage nfs_a is unavailable: it hangs."
    assert [group.name for group in event.groups.all()] == ["chat"]
    assert Event.objects.filter(kind="storage.unavailable").count() == 1, "once a turn, not once a look"


def test_an_incident_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    make_storage(tmp_path)
    for second, is_ok in enumerate([False, False, False, True, True]):
        check("nfs_a", is_ok, "" if is_ok else "gone", at=NOW + timedelta(seconds=10 * second))
    (incident,) = StorageIncident.objects.all()
    assert (incident.started_at, incident.ended_at) == (
        NOW + timedelta(seconds=10),
        NOW + timedelta(seconds=40),
    )
    check("nfs_a", False, at=NOW)
    check("nfs_a", False, at=NOW)
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_enabled": False})
    assert not StorageIncident.objects.filter(ended_at__isnull=True).exists(), "nobody looks any more"


def test_a_result_for_what_was_changed_meanwhile_counts_for_nothing(tmp_path: Path) -> None:
    from apps.storages.services import CheckedStorage, checks_note
    from kvcm_platform.storage.backend import ProbeResult

    entry = make_storage(tmp_path).entry()
    storage_update(acting=ADMIN, name="nfs_a", settings={"weight": 3})
    stale = CheckedStorage(entry, ProbeResult(False, "old"), timezone.now())
    checks_note(checks=[stale], usages=None, limits=HealthLimits())
    assert Storage.objects.get().failures_in_row == 0


def test_content_that_began_anew_is_checked_for_what_is_left(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    check_storages()
    assert check_states(index, [storage.number]) == {}
    (tmp_path / "nfs_a" / MARKER).write_text('{"owner": "", "life": "another"}')
    assert check_storages()["asked"] == ["nfs_a"]
    assert check_states(index, [storage.number])[storage.number].is_running
    assert check_storages()["asked"] == []
    assert StorageHealthChange.objects.filter(event="content_lost").count() == 1
    assert StorageIncident.objects.get().kind == "content_lost"


def test_the_need_of_a_check_outlives_who_noted_it(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    Storage.objects.update(needs_content_check=True, is_available=False)
    limits = HealthLimits()
    assert content_checks_ask(client=index_client(), limits=limits, now=timezone.now()) == []
    Storage.objects.update(is_available=True)
    assert content_checks_ask(client=index_client(), limits=limits, now=timezone.now()) == ["nfs_a"]
    assert check_states(index, [storage.number])[storage.number].is_running


def test_a_forced_move_has_the_blocks_looked_at(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    spec = {"root_path": str(tmp_path / "new")}
    storage_update(acting=ADMIN, name="nfs_a", spec=spec, is_forced=True)
    assert check_storages()["asked"] == ["nfs_a"]


def test_storages_that_may_drop_objects_are_checked_now_and_then(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from kvcm_platform.core.types import StorageType
    from kvcm_platform.storage.registry import KINDS

    make_storage(tmp_path)
    nfs = KINDS[StorageType.NFS]
    forgetful = replace(nfs.capabilities, may_lose_content=True)
    monkeypatch.setitem(KINDS, StorageType.NFS, replace(nfs, capabilities=forgetful))
    now, limits = timezone.now(), HealthLimits(content_check_seconds=600)

    def asked(seconds: float, limits: HealthLimits = limits) -> list[str]:
        at = now + timedelta(seconds=seconds)
        return content_checks_ask(client=index_client(), limits=limits, now=at)

    assert [asked(0), asked(599), asked(601), asked(602)] == [["nfs_a"], [], ["nfs_a"], []]
    assert asked(9999, HealthLimits(content_check_seconds=0)) == []


def test_objects_that_a_storage_dropped_are_looked_for_one_check_after_the_other(
    index: redis.Redis, tmp_path: Path
) -> None:
    number = make_storage(tmp_path).number
    client, limits = index_client(), HealthLimits(content_check_seconds=0)

    def asked(dropped: int) -> list[str]:
        check("nfs_a", True, dropped_objects=dropped)
        return content_checks_ask(client=client, limits=limits, now=timezone.now())

    assert asked(5) == [], "before it was known"
    assert [asked(6), asked(6)] == [["nfs_a"], []]
    assert asked(7) == [], "the first check is under way"
    end_check(index, number)
    assert asked(7) == [], "it ended just now"
    end_check(index, number, ago_seconds=DROPPED_PAUSE_SECONDS)
    assert [asked(7), asked(7)] == [["nfs_a"], []], "it was not forgotten"
    # Another life waits for nothing, and has looked for what was dropped by then, too.
    check("nfs_a", True, content_life="one")
    check("nfs_a", True, content_life="two")
    assert asked(8) == ["nfs_a"]
    end_check(index, number, ago_seconds=DROPPED_PAUSE_SECONDS)
    assert asked(8) == []
    assert asked(1) == ["nfs_a"], "counted anew, and not from 0"
