"""Begins reports: at the times of their schedule, once each, and when somebody asks for one."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.common.queue import enqueue
from apps.optimizer_reports.choices import OPEN_REPORTS, ReportState, ReportTrigger
from apps.optimizer_reports.models.schedule import Report, ReportSchedule
from apps.optimizer_reports.schedules import REPORTS_TASK
from apps.optimizer_reports.selectors.schedules import report_get, schedule_get
from kvcm_platform.core.cron import parse_cron
from kvcm_platform.core.errors import Code, DomainError

CLOCKS_DIFFER = timedelta(seconds=2)
"""Whose clock says that a time has come may be ahead of ours by so much."""
MISSED_AFTER = timedelta(seconds=60)
"""So long a time is left to beat before the round takes it on."""


def report_fire(*, schedule_id: int, now: datetime | None = None) -> Report | None:
    """Begin the report of the newest time that has come, as beat says; None = there is none to begin.

    A time that was served is not served again, whoever calls, and of several that were missed only the
    newest is: nothing piles up.
    """
    now = now or timezone.now()
    with transaction.atomic():
        schedule = ReportSchedule.objects.select_for_update().filter(pk=schedule_id).first()
        if schedule is None or schedule.is_paused:
            return None
        due_at = newest_time(schedule, now + CLOCKS_DIFFER)
        return None if due_at is None else _begin(schedule, due_at, ReportTrigger.SCHEDULE, now, "")


def reports_fire_missed(*, now: datetime | None = None) -> int:
    """Begin what beat's message got lost of, or nobody was there to take; returns how many."""
    now = now or timezone.now()
    begun = 0
    for schedule in ReportSchedule.objects.filter(is_paused=False).order_by("pk"):
        due_at = newest_time(schedule, now - MISSED_AFTER)
        if due_at is not None:
            begun += report_fire(schedule_id=schedule.pk, now=now) is not None
    return begun


def report_request(*, acting: Actor, name: str) -> Report:
    """Begin a report now. Raises NOT_FOUND, and IN_USE while one of this schedule is being made."""
    acting.require(Role.OPERATOR)
    schedule_get(acting=acting, name=name)
    with transaction.atomic():
        schedule = ReportSchedule.objects.select_for_update().get(name=name)
        under_way = schedule.reports.filter(state__in=OPEN_REPORTS).first()
        if under_way is not None:
            raise DomainError(Code.IN_USE, f"report {under_way.pk} of schedule {name} is being made")
        report = _begin(schedule, None, ReportTrigger.REQUEST, timezone.now(), acting.name)
        audit_record(
            acting=acting, action="schedule.run", kind="schedule", name=name, after={"report": report.pk}
        )
    return report_get(acting=acting, report_id=report.pk)


def newest_time(schedule: ReportSchedule, now: datetime) -> datetime | None:
    """The newest time of the schedule that has come and was not served; None = there is none."""
    served = schedule.reports.filter(due_at__isnull=False).order_by("-due_at").first()
    since = schedule.since if served is None else max(schedule.since, served.due_at)
    return parse_cron(schedule.cron, schedule.timezone).last(now, not_before=since)


def _begin(
    schedule: ReportSchedule, due_at: datetime | None, trigger: ReportTrigger, now: datetime, asked_by: str
) -> Report:
    """Inside a transaction that holds the schedule's row: two never begin the same time."""
    report = Report(
        schedule=schedule,
        due_at=due_at,
        trigger=trigger.value,
        state=ReportState.COLLECTING.value,
        asked_by=asked_by[:150] or "schedule",
        created_at=now,
    )
    under_way = schedule.reports.filter(state__in=OPEN_REPORTS).first()
    if under_way is not None:
        report.state, report.ended_at = ReportState.SKIPPED.value, now
        report.reason = f"report {under_way.pk} was still being made"
    report.save(force_insert=True)
    transaction.on_commit(partial(enqueue, REPORTS_TASK))
    return report
