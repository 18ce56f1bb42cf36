"""Forgets old reports, with the runs and captures that were made for them alone."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from apps.common.actor import Actor
from apps.optimizer_reports.choices import OPEN_REPORTS, ReportSource
from apps.optimizer_reports.models import Report, ReportSchedule
from apps.optimizer_reports.services.runs import run_remove
from apps.optimizer_reports.services.traces import trace_remove
from kvcm_platform.core.errors import DomainError

log = structlog.get_logger(__name__)
_AT_ONCE = 100


def reports_prune() -> int:
    """Delete the reports beyond what their schedules keep, `_AT_ONCE` of each at most; returns how many."""
    return sum(_prune(schedule) for schedule in ReportSchedule.objects.order_by("pk"))


def _prune(schedule: ReportSchedule) -> int:
    over = schedule.reports.exclude(state__in=OPEN_REPORTS).order_by("-id")
    keep = schedule.keep_reports
    last = over.values_list("pk", flat=True)[keep : keep + 1].first()
    if last is None:
        return 0
    old = list(over.filter(pk__lte=last).order_by("id").select_related("run", "trace")[:_AT_ONCE])
    for report in old:
        _forget(schedule, report)
    return len(old)


def _forget(schedule: ReportSchedule, report: Report) -> None:
    """The report last: what is left of it after a crash is taken the next time."""
    acting = Actor.system("optimizer")
    if report.run is not None:
        _try(lambda: run_remove(acting=acting, run_id=report.run.pk))
    is_ours = schedule.source == ReportSource.CAPTURE and report.trace is not None
    if is_ours and not report.trace.reports.exclude(pk=report.pk).exists():
        _try(lambda: trace_remove(acting=acting, trace_id=report.trace.pk))
    report.delete()


def _try(remove: Callable[[], None]) -> None:
    try:
        remove()
    except DomainError as error:
        # Somebody uses it for something else by now.
        log.info("what a forgotten report was made of stays", reason=error.message)
