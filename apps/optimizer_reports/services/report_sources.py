"""Where the trace of a report comes from: one that is on record, or live traffic that is captured for it."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from apps.common.actor import Actor
from apps.common.redis_client import index_client
from apps.instances.selectors import group_get, instance_list
from apps.optimizer_reports.choices import ReportSource, TraceSource, TraceState
from apps.optimizer_reports.models import OptimizerTrace, Report, ReportSchedule
from apps.optimizer_reports.services.live_captures import capture_begin
from kvcm_platform.core.errors import Code, DomainError

CAPTURE_WAITS = timedelta(hours=1)
"""For other captures to end, before the report is given up."""


class NoTrace(Exception):
    """There is no trace for the report, and there will be none; the sentence says why."""


def reporter(schedule: ReportSchedule) -> Actor:
    """Who acts for a schedule: the platform, whoever made the schedule and whatever became of them."""
    return Actor.system(f"schedule {schedule.name}")


def trace_of_report(report: Report) -> OptimizerTrace | None:
    """Its trace where that is ready; None = not yet. Raises NoTrace."""
    if report.trace_id is None:
        raise NoTrace("its trace was deleted")
    trace = OptimizerTrace.objects.get(pk=report.trace_id)
    if trace.state == TraceState.FAILED:
        raise NoTrace(f"trace {trace.name} cannot be used: {trace.reason or 'it failed'}")
    return trace if trace.state == TraceState.READY else None


def trace_choose(report: Report) -> OptimizerTrace | None:
    """The trace that a new report is of; a capture begins here. None = not now, but soon. Raises NoTrace.

    Not in a transaction, since a capture tells the index. It may be called again after a crash: a capture
    that was begun for the report is found.
    """
    schedule = report.schedule
    if schedule.source == ReportSource.TRACE:
        if schedule.trace is None:
            raise NoTrace("the trace of the schedule was deleted")
        return schedule.trace
    if schedule.source == ReportSource.LAST_CAPTURE:
        return _last_capture(schedule)
    return _captured(report)


def _last_capture(schedule: ReportSchedule) -> OptimizerTrace:
    """The newest of the group's traffic alone, or of all where the schedule is of no group."""
    captures = OptimizerTrace.objects.filter(source=TraceSource.CAPTURE.value, state=TraceState.READY.value)
    if schedule.group_name:
        try:
            group = group_get(acting=reporter(schedule), name=schedule.group_name)
        except DomainError as error:
            raise NoTrace(error.message) from error
        # Those before are of an earlier group of the same name.
        captures = captures.filter(added_at__gte=group.row.created_at)
    for trace in captures.order_by("-id").prefetch_related("groups")[:200]:
        groups = {group.name for group in trace.groups.all()}
        if not schedule.group_name or groups == {schedule.group_name}:
            return trace
    of_group = f" of instance group {schedule.group_name}" if schedule.group_name else ""
    raise NoTrace(f"no capture{of_group} is ready")


def _captured(report: Report) -> OptimizerTrace | None:
    schedule = report.schedule
    name = f"{schedule.name[:110]} {report.pk}"
    begun = OptimizerTrace.objects.filter(
        source=TraceSource.CAPTURE.value, name=name, added_at__gte=report.created_at
    ).first()
    if begun is not None:
        return begun
    ids = _instances(schedule)
    try:
        return capture_begin(
            acting=reporter(schedule),
            client=index_client(),
            instance_ids=ids,
            seconds=schedule.capture_seconds,
            name=name,
            note=f"For report {report.pk} of schedule {schedule.name}.",
        )
    except DomainError as error:
        is_busy = error.code in (Code.CAPACITY, Code.TOO_MANY)
        if is_busy and timezone.now() - report.created_at < CAPTURE_WAITS:
            # Others are captured now: that passes.
            return None
        raise NoTrace(error.message) from error


def _instances(schedule: ReportSchedule) -> list[str]:
    """Raises NoTrace. One that went, and came back in another group, is not this group's to be shown."""
    if not schedule.group_name:
        return list(schedule.instances)
    of_group = _instances_of(schedule.group_name)
    if not of_group:
        raise NoTrace(f"no instance is registered in group {schedule.group_name}")
    foreign = sorted(set(schedule.instances) - set(of_group))
    if foreign:
        raise NoTrace(f"instance {foreign[0]} is not registered in group {schedule.group_name}")
    return list(schedule.instances) or of_group


def _instances_of(group_name: str) -> list[str]:
    rows = instance_list(acting=Actor.system("optimizer")).filter(group__name=group_name)
    return list(rows.values_list("instance_id", flat=True))
