"""Two who do the same at once: the second one sees what the first one did."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.instances.selectors import group_get
from apps.instances.services import group_update
from apps.optimizer_reports.models import OptimizerTrace, Recommendation, Report, ReportSchedule
from apps.optimizer_reports.selectors.recommendations import basis_of
from apps.optimizer_reports.services.recommendation_decisions import recommendation_apply, recommendation_undo
from apps.optimizer_reports.services.report_begin import report_fire, report_request, reports_fire_missed
from apps.optimizer_reports.services.reports import report_advance
from apps.optimizer_reports.services.schedules import ScheduleSettings, schedule_add, schedule_update
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import Quota
from kvcm_platform.optimizer.advice_kinds import AdviceKind
from tests.factories.actors import OPERATOR
from tests.factories.objects import make_group, make_storage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]
ROUNDS = 5


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each gave, or its error's code; all begin together, each in a thread and connection of its own."""
    start = Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        start.wait(10)
        try:
            return call()
        except DomainError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [job.result(30) for job in [pool.submit(one, call) for call in calls]]


def advice() -> Recommendation:
    now = timezone.now()
    settings = group_get(acting=OPERATOR, name="chat").settings
    return Recommendation.objects.create(
        kind="quota",
        group_name="chat",
        sentence="x",
        changes={"quota": {"capacity_bytes": 5_000_000}},
        basis=basis_of(AdviceKind.QUOTA, settings),
        created_at=now,
        expires_at=now + timedelta(days=1),
    )


def test_advice_is_applied_and_taken_back_once(tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    for turn in range(ROUNDS):
        pk = advice().pk

        def apply(pk: int = pk) -> str:
            return recommendation_apply(acting=OPERATOR, pk=pk).state

        def undo(pk: int = pk) -> str:
            return recommendation_undo(acting=OPERATOR, pk=pk).state

        assert sorted(map(str, at_once(apply, apply, apply))) == sorted(
            ["applied", *[str(Code.CONFLICT)] * 2]
        )
        group = group_get(acting=OPERATOR, name="chat")
        assert (group.row.version, group.settings.quota.capacity_bytes) == (2 * turn + 2, 5_000_000)
        assert sorted(map(str, at_once(undo, apply, undo))) == sorted(["undone", *[str(Code.CONFLICT)] * 2])
        group = group_get(acting=OPERATOR, name="chat")
        assert (group.row.version, group.settings.quota.capacity_bytes) == (2 * turn + 3, 1_000_000)


def test_advice_and_a_change_of_the_group_come_one_after_the_other(tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    for turn in range(ROUNDS):
        pk, other = advice().pk, Quota(2_000_000 + turn)

        def apply(pk: int = pk) -> str:
            return recommendation_apply(acting=OPERATOR, pk=pk).state

        def change(other: Quota = other) -> str:
            group_update(acting=OPERATOR, name="chat", change=lambda found: replace(found, quota=other))
            return "changed"

        applied, _ = at_once(apply, change)
        assert applied in ("applied", Code.CONFLICT)
        assert group_get(acting=OPERATOR, name="chat").settings.quota == other
        if applied == "applied":
            assert at_once(lambda pk=pk: recommendation_undo(acting=OPERATOR, pk=pk)) == [Code.CONFLICT]
        Recommendation.objects.all().delete()


@pytest.fixture
def schedule() -> ReportSchedule:
    now = timezone.now()
    trace = OptimizerTrace.objects.create(
        name="t", source="upload", state="ready", folder="t", added_by="olga", added_at=now
    )
    settings = ScheduleSettings(cron="*/5 * * * *", source="trace", trace_id=trace.pk)
    return schedule_add(acting=OPERATOR, name="nightly", settings=settings)


def test_beats_rounds_and_people_serve_a_time_once(schedule: ReportSchedule) -> None:
    base = timezone.now()
    for turn in range(1, ROUNDS + 1):
        now = base + timedelta(minutes=10 * turn)
        calls = [lambda now=now: report_fire(schedule_id=schedule.pk, now=now)] * 3
        missed = [lambda now=now: reports_fire_missed(now=now)]
        change = [
            lambda turn=turn: schedule_update(acting=OPERATOR, name="nightly", changes={"note": str(turn)})
        ]
        at_once(*calls, *missed, *change)
        times = list(Report.objects.values_list("due_at", flat=True))
        assert len(times) == len(set(times)) and turn <= len(times) <= 2 * turn
        assert Report.objects.filter(state="collecting").count() <= 1


def test_one_report_is_begun_by_many_who_ask(schedule: ReportSchedule) -> None:
    asked = at_once(*[lambda: report_request(acting=OPERATOR, name="nightly").state] * 4)
    assert sorted(map(str, asked)) == sorted(["collecting", *[str(Code.IN_USE)] * 3])
    pk = Report.objects.get().pk
    at_once(*[lambda: report_advance(pk)] * 3)
    at_once(*[lambda: report_advance(pk)] * 3)
    report = Report.objects.get()
    assert report.state == "running" and report.schedule.reports.count() == 1
    assert OptimizerTrace.objects.get().runs.count() == 1
