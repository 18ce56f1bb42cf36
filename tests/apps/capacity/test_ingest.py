"""Reports of reclaimers become rows and totals, each exactly once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import DatabaseError
from django.utils import timezone

from apps.capacity.models import ReclaimRun, ReclaimTotal, ReportCursor
from apps.capacity.services import ingest, reports_ingest
from apps.capacity.services.upkeep import KEPT, runs_forget, runs_keep
from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.runs import RunState, Stop, Trigger
from kvcm_platform.index import keyspace
from tests.apps.capacity.conftest import T0, Report, report_of
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
RUN = "00000000000000a1"
CHOSEN = {"chosen_blocks": 40, "chosen_bytes": 4000}
FREED = {"freed_blocks": 40, "freed_bytes": 4000}
OVER = {"state": RunState.DONE, "stop": Stop.ENOUGH.value, "ended_ms": T0 + 2500}


def totals() -> tuple[int, ...]:
    one = ReclaimTotal.objects.get()
    return one.runs, one.failed_runs, one.chosen_blocks, one.freed_bytes, round(one.seconds * 1000)


def test_a_run_from_its_first_report_to_its_last(report: Report) -> None:
    scope = {"scope": "group", "subject": "chat", "used": 90, "limit": 100, "high": 80, "low": 75, "need": 15}
    report(planned_blocks=40, planned_bytes=4000, scopes=[scope], capacity_bytes=10_000)
    assert reports_ingest() == 1
    row = ReclaimRun.objects.get()
    assert (row.run_id, row.group_name, row.trigger, row.state) == (RUN, "chat", "watermark", "choosing")
    assert (row.began_at, row.ended_at, row.marked_at) == (datetime.fromtimestamp(T0 / 1000, UTC), None, None)
    assert (row.planned_bytes, row.scopes, row.is_final) == (4000, [scope], False)
    report(state=RunState.DELETING, marked_ms=T0 + 1000, oldest_use_ms=T0 - 9000, **CHOSEN)
    report(
        **CHOSEN,
        **FREED,
        **OVER,
        marked_ms=T0 + 1000,
        by_instance={"model-a": [30, 3000], "model-b": [10, 1000]},
        by_storage={"nfs_a": [40, 4000]},
        used_before_bytes=9000,
        used_after_bytes=5000,
        rounds=2,
        busy_ms=700,
    )
    assert reports_ingest() == 1, "one run, whatever the number of its reports"
    row.refresh_from_db()
    assert (row.state, row.stop, row.is_final) == ("done", "enough", True)
    assert (row.freed_blocks, row.freed_bytes, row.failed_blocks) == (40, 4000, 0)
    assert row.ended_at - row.began_at == timedelta(milliseconds=2500)
    assert (row.by_instance, row.by_storage) == (
        {"model-a": [30, 3000], "model-b": [10, 1000]},
        {"nfs_a": [40, 4000]},
    )
    assert (row.used_before_bytes, row.used_after_bytes, row.rounds, row.busy_ms) == (9000, 5000, 2, 700)
    assert totals() == (1, 0, 40, 4000, 2500)


def test_nothing_is_counted_twice(report: Report) -> None:
    report(**CHOSEN)
    reports_ingest()
    report(**CHOSEN, **FREED, **OVER)
    reports_ingest()
    assert reports_ingest() == 0
    ReportCursor.objects.update(position="0-0")
    reports_ingest()
    assert totals() == (1, 0, 40, 4000, 2500)


def test_a_batch_that_fails_is_taken_over_again(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    report(**CHOSEN)
    report("00000000000000a2", **CHOSEN)
    real = ingest._add_up

    def on_a_full_disk(changes: Any) -> None:
        assert ReclaimRun.objects.count() == 2
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(ingest, "_add_up", on_a_full_disk)
    with pytest.raises(DatabaseError):
        reports_ingest()
    assert not ReclaimRun.objects.exists(), "rows, totals and position go together"
    monkeypatch.setattr(ingest, "_add_up", real)
    assert reports_ingest() == 2
    assert totals()[2] == 80


def test_more_than_a_batch(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "REPORTS_A_BATCH", 3)
    for number in range(7):
        report(f"{number:016x}", **CHOSEN)
    assert reports_ingest() == 7
    assert ReclaimRun.objects.count() == 7


def test_a_report_that_cannot_be_read_holds_up_no_other(index: redis.Redis, report: Report) -> None:
    index.xadd(keyspace.RECLAIM_REPORTS, {"d": "{"})
    index.xadd(keyspace.RECLAIM_REPORTS, {"d": '{"id": "x", "trigger": "whim"}'})
    index.xadd(keyspace.RECLAIM_REPORTS, {"other": "1"})
    report(**CHOSEN)
    assert reports_ingest() == 1
    assert reports_ingest() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a" * 17},
        {"group": None},
        {"group": "g" * 129},
        {"chosen_blocks": "many"},
        {"chosen_bytes": 1 << 63},
        {"rounds": 1 << 31},
        {"freed_blocks": True},
        {"began_ms": 10**18},
        {"ended_ms": -1},
        {"detail": 5},
        {"detail": "\ud800"},
        {"by_instance": {"model-a": 5}},
        {"by_storage": [1]},
        {"request": "all of it"},
        {"scopes": {}},
    ],
    ids=str,
)
def test_a_report_with_a_wrong_member_holds_up_no_other(
    index: redis.Redis, report: Report, wrong: dict[str, Any]
) -> None:
    entry = {**report_of("00000000000000bb").to_dict(), **wrong}
    index.xadd(keyspace.RECLAIM_REPORTS, {"d": json.dumps(entry)})
    report(**CHOSEN)
    assert reports_ingest() == 1
    assert ReclaimRun.objects.get().run_id == RUN


def test_reports_of_another_form_hold_up_no_other(index: redis.Redis, report: Report) -> None:
    for form in ("[]", "5", "null", '"x"', "{}"):
        index.xadd(keyspace.RECLAIM_REPORTS, {"d": form})
    report(detail="cut\0off", **CHOSEN)
    assert reports_ingest() == 1
    assert ReclaimRun.objects.get().detail == "cutoff", "databases do not take a NUL"


def test_what_a_stopped_reclaimer_says_afterwards_changes_nothing(report: Report) -> None:
    report(**CHOSEN, **FREED, **OVER)
    reports_ingest()
    report(chosen_blocks=10, chosen_bytes=1000)
    assert reports_ingest() == 0
    row = ReclaimRun.objects.get()
    assert (row.state, row.chosen_blocks) == ("done", 40)
    assert totals() == (1, 0, 40, 4000, 2500)


def test_an_index_that_fell_back_is_read_from_the_start(index: redis.Redis, report: Report) -> None:
    report(**CHOSEN)
    reports_ingest()
    index.delete(keyspace.RECLAIM_REPORTS)
    assert reports_ingest() == 0
    # Its clock, or what is left of the stream, is behind what was taken over before.
    ReportCursor.objects.update(position=f"{4 * T0}-0")
    report(**CHOSEN, **FREED, **OVER)
    assert reports_ingest() == 1
    assert ReclaimRun.objects.get().state == "done"
    assert totals() == (1, 0, 40, 4000, 2500)


def test_two_who_take_over_at_once(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read its batch, and was held up until another had taken over that and more."""
    report(**CHOSEN)
    real = ingest._take_over

    def held_up(before: str, batch: list) -> int:  # type: ignore[type-arg]
        monkeypatch.setattr(ingest, "_take_over", real)
        report(chosen_blocks=60, chosen_bytes=6000)
        assert reports_ingest() == 1
        return real(before, batch)

    monkeypatch.setattr(ingest, "_take_over", held_up)
    assert reports_ingest() == 0
    assert ReclaimRun.objects.get().chosen_blocks == 60
    assert totals()[2] == 60


def test_failed_runs_are_counted_apart(report: Report) -> None:
    report(state=RunState.FAILED, stop=Stop.ERRORS.value, ended_ms=T0 + 1000)
    report("00000000000000a2", trigger=Trigger.QUOTA, **CHOSEN)
    reports_ingest()
    found = {one.trigger: (one.runs, one.failed_runs) for one in ReclaimTotal.objects.all()}
    assert found == {"watermark": (1, 1), "quota": (0, 0)}


def quiet(seconds: float) -> None:
    ReclaimRun.objects.update(reported_at=timezone.now() - timedelta(seconds=seconds))


def test_a_run_that_nobody_knows_of_any_more_is_ended(index: redis.Redis, report: Report) -> None:
    for number, key in enumerate((keyspace.RECLAIM_OPEN, keyspace.RECLAIM_SETTLING, "")):
        run_id = f"{number + 1:016x}"
        report(run_id, **CHOSEN)
        if key == keyspace.RECLAIM_OPEN:
            index.hset(key, "3", OpenRun(report_of(run_id), 3).dumps())
            index.hset(key, "4", "{")
        elif key:
            index.hset(key, run_id, "{}")
    reports_ingest()
    assert runs_keep(now=timezone.now())["lost"] == 0, "they reported a moment ago"
    quiet(120)
    assert runs_keep(now=timezone.now())["lost"] == 1
    lost = ReclaimRun.objects.get(run_id=f"{3:016x}")
    assert (lost.state, lost.is_final) == ("failed", False)
    assert lost.detail == "its end is not on record: the index lost it"
    # It was only out of sight.
    report(lost.run_id, **CHOSEN, **FREED, **OVER)
    reports_ingest()
    lost.refresh_from_db()
    assert (lost.state, lost.is_final, lost.detail) == ("done", True, "")


def test_a_last_report_that_waits_counts_before_a_run_is_called_lost(report: Report) -> None:
    report(**CHOSEN)
    reports_ingest()
    quiet(120)
    report(**CHOSEN, **FREED, **OVER)
    assert runs_keep(now=timezone.now())["lost"] == 0
    assert ReclaimRun.objects.get().state == "done"


def test_upkeep_goes_on_without_the_index(report: Report, settings) -> None:
    report(**CHOSEN, **FREED, **OVER)
    reports_ingest()
    ReclaimRun.objects.update(created_at=timezone.now() - KEPT - timedelta(days=1))
    settings.KVCM_REDIS_URL = "redis://127.0.0.1:1/0"
    assert runs_keep(now=timezone.now()) == {"forgotten": 1, "lost": 0}


def test_old_runs_and_too_many_are_forgotten(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.capacity.services.upkeep.KEPT_RUNS", 3)
    for number in range(6):
        report(f"{number:016x}", **({} if number == 0 else OVER))
    reports_ingest()
    now = timezone.now()
    ReclaimRun.objects.update(created_at=now)
    ReclaimRun.objects.filter(run_id=f"{5:016x}").update(created_at=now - KEPT - timedelta(seconds=1))
    assert runs_forget(now=now) == 3
    left = sorted(int(row.run_id, 16) for row in ReclaimRun.objects.all())
    assert left == [0, 3, 4], "the open one stays, of the others the newest three but the old one"


def test_totals_go_with_the_last_trace_of_a_group(report: Report, tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    report(**CHOSEN, **FREED, **OVER)
    report("00000000000000a2", group="gone", **OVER)
    reports_ingest()
    runs_keep(now=timezone.now())
    assert ReclaimTotal.objects.count() == 2
    ReclaimRun.objects.all().delete()
    runs_keep(now=timezone.now())
    assert [one.group_name for one in ReclaimTotal.objects.all()] == ["chat"]
