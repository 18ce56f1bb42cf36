"""What may be worth an alert about scheduled reports."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity, ended
from apps.optimizer_reports.choices import ReportState
from apps.optimizer_reports.models import Report
from apps.optimizer_reports.selectors.schedules import newest_reports

_RECENT = Parameter(
    name="recent_seconds",
    default=86_400,
    minimum=60,
    maximum=2_592_000,
    unit="seconds",
    help="For how long after its end a report is told, unless a newer one says otherwise.",
)


def reports_changed(parameters: Parameters) -> Iterator[Finding]:
    """Schedules whose newest report differs from the one before by more than their thresholds."""
    for report in _recent(parameters):
        if report.is_changed and report.change is not None:
            message = f"Report {report.pk} of schedule {report.schedule.name}: {report.change['sentence']}"
            yield _finding(report, message, report.change["hit_rate"])


def reports_failed(parameters: Parameters) -> Iterator[Finding]:
    """Schedules whose newest report could not be made."""
    for report in _recent(parameters):
        if report.state == ReportState.FAILED:
            name = report.schedule.name
            message = f"Report {report.pk} of schedule {name} could not be made: {ended(report.reason)}"
            yield _finding(report, message, None)


def _recent(parameters: Parameters) -> list[Report]:
    since = timezone.now() - timedelta(seconds=parameters["recent_seconds"])
    return [report for report in newest_reports() if report.ended_at is not None and report.ended_at >= since]


def _finding(report: Report, message: str, value: float | None) -> Finding:
    group = report.schedule.group_name
    return Finding(report.schedule.name, message, value, (group,) if group else None)


REPORT_CONDITIONS = [
    Condition(
        name="optimizer_report_changed",
        title="Optimizer report changed",
        help="Hit rate or best capacity moved by more than the schedule's threshold since the report before.",
        subject_kind="platform",
        check=reports_changed,
        severity=Severity.INFO,
        unit="ratio",
        parameters=(_RECENT,),
    ),
    Condition(
        name="optimizer_report_failed",
        title="Optimizer report failed",
        help="A scheduled report could not be made: what it would tell goes unseen.",
        subject_kind="platform",
        check=reports_failed,
        parameters=(_RECENT,),
    ),
]
