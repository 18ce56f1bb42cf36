"""Makes reports, step by step: a trace, a run of it, figures, the page, and the word to recipients.

Every step is one transaction that looks at the report's state under its row lock: it may be stopped
anywhere, and done by whoever comes by.
"""

from __future__ import annotations

import gzip
from datetime import timedelta

import structlog
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record, event_record
from apps.common.actor import Actor, Role
from apps.common.conditions import Severity, ended
from apps.optimizer_reports.choices import (
    OPEN_REPORTS,
    OPEN_RUNS,
    ReportState,
    RunOrigin,
    RunState,
)
from apps.optimizer_reports.models import OptimizerRun, OptimizerTrace, Report, ReportDocument
from apps.optimizer_reports.selectors.costs import cost_model_of_group
from apps.optimizer_reports.selectors.schedules import report_before, report_get, reports_open
from apps.optimizer_reports.services.recommendations import run_recommend
from apps.optimizer_reports.services.report_mails import mails_queue
from apps.optimizer_reports.services.report_page import report_page
from apps.optimizer_reports.services.report_sources import NoTrace, reporter, trace_choose, trace_of_report
from apps.optimizer_reports.services.runs import RunWish, run_cancel, run_create
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.report_figures import (
    ReportChange,
    ReportFigures,
    change_between,
    figures_from_json,
    figures_of,
)

log = structlog.get_logger(__name__)

MOST_OPEN = timedelta(hours=72)
"""Beyond its capture. An optimizer run may take two days."""


def reports_advance() -> int:
    """Take every report that is being made one step further, where one can be; returns how many steps."""
    return sum(report_advance(report_id) for report_id in reports_open())


def report_advance(report_id: int) -> bool:
    """One step of one report; False where it has to wait, or is over."""
    report = Report.objects.select_related("schedule__trace", "run").filter(pk=report_id).first()
    if report is None or report.state not in OPEN_REPORTS:
        return False
    most = MOST_OPEN + timedelta(seconds=report.schedule.capture_seconds)
    if timezone.now() - report.created_at > most:
        return _end(report, ReportState.FAILED, f"it was not ready after {most}")
    try:
        if report.state == ReportState.COLLECTING:
            return _collect(report)
        return _follow_run(report)
    except NoTrace as problem:
        return _end(report, ReportState.FAILED, str(problem))


def report_cancel(*, acting: Actor, report_id: int) -> Report:
    """Make a report no further; its run is cancelled, its capture goes on by itself.

    Raises NOT_FOUND, CONFLICT for a report that is over.
    """
    acting.require(Role.OPERATOR)
    report = report_get(acting=acting, report_id=report_id)
    if not _end(report, ReportState.CANCELLED, f"cancelled by {acting.name}"):
        raise DomainError(Code.CONFLICT, f"report {report_id} is over: {report.state}")
    audit_record(
        acting=acting,
        action="report.cancel",
        kind="schedule",
        name=report.schedule.name,
        after={"report": report_id},
    )
    if report.run is not None and report.run.state in OPEN_RUNS:
        try:
            run_cancel(acting=reporter(report.schedule), run_id=report.run.pk)
        except DomainError as error:
            log.info("the run of a cancelled report ended by itself", report=report_id, reason=error.message)
    return report_get(acting=acting, report_id=report_id)


def _collect(report: Report) -> bool:
    """Choose the trace once, then wait for it, then have it analysed."""
    if report.trace_id is None:
        chosen = trace_choose(report)
        return chosen is not None and _begun(report, chosen)
    trace = trace_of_report(report)
    if trace is None:
        return False
    try:
        with transaction.atomic():
            locked = _locked(report.pk, ReportState.COLLECTING)
            if locked is None:
                return False
            locked.run = run_create(acting=reporter(report.schedule), wish=_wish(report, trace.pk))
            locked.state = ReportState.RUNNING.value
            locked.save(update_fields=["run", "state"])
    except DomainError as error:
        # Too many at a time: that passes.
        return False if error.code == Code.TOO_MANY else _end(report, ReportState.FAILED, error.message)
    return True


def _begun(report: Report, trace: OptimizerTrace) -> bool:
    waiting = Report.objects.filter(pk=report.pk, state=ReportState.COLLECTING.value, trace=None)
    return bool(waiting.update(trace=trace))


def _wish(report: Report, trace_id: int) -> RunWish:
    schedule = report.schedule
    cost = cost_model_of_group(schedule.group_name)
    at = report.due_at or report.created_at
    return RunWish(
        trace_id=trace_id,
        spec={**schedule.template, **({} if cost is None else {"cost": cost.settings})},
        name=f"{schedule.name} {at:%Y-%m-%d %H:%M}"[:128],
        group=schedule.group_name,
        origin=RunOrigin.SCHEDULE,
    )


def _follow_run(report: Report) -> bool:
    run = report.run
    if run is None:
        return _end(report, ReportState.FAILED, "its optimizer run was deleted")
    if run.state in OPEN_RUNS:
        return False
    if run.state != RunState.DONE or run.summary is None:
        reason = f"optimizer run {run.pk} {'failed' if run.state == RunState.FAILED else 'was cancelled'}"
        return _end(report, ReportState.FAILED, f"{reason}: {run.reason}" if run.reason else reason)
    return _finish(report, run)


def _finish(report: Report, run: OptimizerRun) -> bool:
    """Outside of the transaction what takes its time; then all of the end at once."""
    figures = figures_of(run.summary, run.trace_facts)
    run_recommend(run=run)
    before = report_before(report)
    change = None if before is None else _change(report, before, figures)
    _note(report, figures, before, change)
    page = gzip.compress(report_page(report, run).encode(), mtime=0)
    with transaction.atomic():
        locked = _locked(report.pk, ReportState.RUNNING)
        if locked is None:
            return False
        _note(locked, figures, before, change)
        locked.state, locked.ended_at = ReportState.DONE.value, timezone.now()
        locked.save()
        ReportDocument.objects.update_or_create(report=locked, defaults={"html": page})
        mails_queue(locked)
        if change is not None and change.is_changed:
            _tell(locked, "changed", Severity.WARNING, change.sentence)
    return True


def _change(report: Report, before: Report, figures: ReportFigures) -> ReportChange | None:
    if before.figures is None:
        return None
    return change_between(
        figures_from_json(before.figures),
        figures,
        hit_rate_threshold=report.schedule.hit_rate_threshold,
        capacity_threshold=report.schedule.capacity_threshold,
    )


def _note(report: Report, figures: ReportFigures, before: Report | None, change: ReportChange | None) -> None:
    report.figures = figures.to_json()
    report.is_changed = change is not None and change.is_changed
    known = before is not None and change is not None
    report.change = {"report": before.pk, **change.to_json()} if known else None  # type: ignore[union-attr]


def _end(report: Report, state: ReportState, reason: str) -> bool:
    """End a report without a result; False where it was over."""
    with transaction.atomic():
        locked = Report.objects.select_for_update(of=("self",)).select_related("schedule")
        row = locked.filter(pk=report.pk, state__in=OPEN_REPORTS).first()
        if row is None:
            return False
        row.state, row.reason, row.ended_at = state.value, reason[:2000], timezone.now()
        row.save(update_fields=["state", "reason", "ended_at"])
        if state is ReportState.FAILED:
            mails_queue(row)
            _tell(row, "failed", Severity.WARNING, row.reason)
    return True


def _tell(report: Report, what: str, severity: Severity, sentence: str) -> None:
    schedule = report.schedule
    begin = f"Report {report.pk} of schedule {schedule.name}"
    message = f"{begin} could not be made: {ended(sentence)}" if what == "failed" else f"{begin}: {sentence}"
    event_record(
        at=timezone.now(),
        kind=f"optimizer_report.{what}",
        subject_kind="schedule",
        subject=schedule.name,
        message=message,
        severity=severity,
        groups=[schedule.group_name] if schedule.group_name else None,
    )


def _locked(report_id: int, state: ReportState) -> Report | None:
    rows = Report.objects.select_for_update(of=("self",)).select_related("schedule__trace")
    found: Report | None = rows.filter(pk=report_id, state=state.value).first()
    return found
