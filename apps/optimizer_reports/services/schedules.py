"""Schedules of reports: what operators set, pause, and take away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.instances.selectors import group_get, instance_get
from apps.optimizer_reports.choices import OPEN_REPORTS, MailWhen, ReportSource
from apps.optimizer_reports.models import OptimizerTrace
from apps.optimizer_reports.models.schedule import ReportSchedule
from apps.optimizer_reports.selectors.schedules import schedule_get
from apps.optimizer_reports.selectors.traces import groups_shown, trace_get
from apps.optimizer_reports.services.beat_rows import beat_row_remove, beat_row_set
from kvcm_platform.core.cron import parse_cron
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.validation.values import check_object_name, number, text
from kvcm_platform.core.validation.versions import require_version
from kvcm_platform.optimizer.analysis.spec import spec_from_json, spec_to_json

SCHEDULES_AT_MOST = 200
EXPLAIN_NAME = "explain"
RECIPIENTS_AT_MOST = 50
INSTANCES_AT_MOST = 200
MOST_KEPT = 500
LONGEST_CAPTURE_SECONDS = 6 * 3600
_SET_BY_SOURCE = ("quota_bytes", "cost")
"""Members of the analysis that follow from the group when a report is made."""


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """What operators set. `trace_id` is needed for source trace, `instances` empty = all of the group."""

    cron: str
    source: str
    timezone: str = "UTC"
    note: str = ""
    group_name: str = ""
    trace_id: int | None = None
    instances: tuple[str, ...] = ()
    capture_seconds: int = 600
    template: Mapping[str, Any] | None = None
    keep_reports: int = 30
    hit_rate_threshold: float = 0.02
    capacity_threshold: float = 0.1
    recipients: tuple[str, ...] = ()
    mails_when: str = MailWhen.CHANGED.value
    is_paused: bool = False


@transaction.atomic
def schedule_add(*, acting: Actor, name: str, settings: ScheduleSettings) -> ReportSchedule:
    """Add a schedule; it is due from its next time on.

    Raises INVALID_ARGUMENT with the member, NOT_FOUND for a group, instance or trace that does not exist or
    may not be seen, DUPLICATE for a taken name, CAPACITY for too many.
    """
    acting.require(Role.OPERATOR)
    if check_object_name(name) == EXPLAIN_NAME:
        raise invalid("name", f"{EXPLAIN_NAME} is the address of what an expression means")
    if ReportSchedule.objects.filter(name=name).exists():
        raise DomainError(Code.DUPLICATE, f"schedule {name} exists", field="name")
    if ReportSchedule.objects.count() >= SCHEDULES_AT_MOST:
        raise DomainError(Code.CAPACITY, f"there are {SCHEDULES_AT_MOST} schedules already")
    now = timezone.now()
    row = ReportSchedule(name=name, created_by=acting.name[:150], since=now)
    _apply(row, _checked(acting, settings))
    row.save(force_insert=True)
    beat_row_set(row)
    audit_record(acting=acting, action="schedule.add", kind="schedule", name=name, after=schedule_state(row))
    return row


@transaction.atomic
def schedule_update(
    *, acting: Actor, name: str, changes: Mapping[str, Any], expected_version: int | None = None
) -> ReportSchedule:
    """Change a schedule. New times, and a pause that ends, count from now on: nothing is made up for.

    Raises as schedule_add, and CONFLICT for a stale `expected_version`.
    """
    acting.require(Role.OPERATOR)
    row = _locked(acting, name)
    require_version(stored=row.version, given=expected_version)
    before, old = schedule_state(row), settings_of(row)
    settings = _checked(acting, replace(old, **changes), old)
    if settings.group_name != old.group_name and row.reports.exists():
        raise invalid("instance_group", "there are reports of this one: add another schedule")
    if (old.cron, old.timezone, old.is_paused) != (settings.cron, settings.timezone, settings.is_paused):
        row.since = timezone.now()
    _apply(row, settings)
    row.version += 1
    row.save(force_update=True)
    beat_row_set(row)
    audit_record(
        acting=acting,
        action="schedule.update",
        kind="schedule",
        name=name,
        before=before,
        after=schedule_state(row),
    )
    return row


@transaction.atomic
def schedule_remove(*, acting: Actor, name: str) -> None:
    """Remove a schedule with its reports. Raises NOT_FOUND, and IN_USE while a report is being made."""
    acting.require(Role.OPERATOR)
    row = _locked(acting, name)
    if row.reports.filter(state__in=OPEN_REPORTS).exists():
        raise DomainError(Code.IN_USE, f"a report of schedule {name} is being made: cancel it first")
    before = schedule_state(row)
    beat_row_remove(row.pk)
    row.delete()
    audit_record(acting=acting, action="schedule.remove", kind="schedule", name=name, before=before)


def settings_of(row: ReportSchedule) -> ScheduleSettings:
    names = ScheduleSettings.__dataclass_fields__
    values = {name: getattr(row, name) for name in names}
    values |= {"instances": tuple(row.instances), "recipients": tuple(row.recipients)}
    return ScheduleSettings(**values)


def schedule_state(row: ReportSchedule) -> dict[str, Any]:
    """As the record of changes shows it."""
    return asdict(settings_of(row))


def _locked(acting: Actor, name: str) -> ReportSchedule:
    schedule_get(acting=acting, name=name)
    row: ReportSchedule = ReportSchedule.objects.select_for_update().get(name=name)
    return row


def _apply(row: ReportSchedule, settings: ScheduleSettings) -> None:
    for name in ScheduleSettings.__dataclass_fields__:
        value = getattr(settings, name)
        setattr(row, name, list(value) if isinstance(value, tuple) else value)
    row.updated_at = timezone.now()


def _checked(
    acting: Actor, settings: ScheduleSettings, old: ScheduleSettings | None = None
) -> ScheduleSettings:
    parse_cron(settings.cron, settings.timezone)
    text("note", settings.note, is_required=False, at_most=2000)
    number("capture_seconds", settings.capture_seconds, 10, LONGEST_CAPTURE_SECONDS)
    number("keep_reports", settings.keep_reports, 1, MOST_KEPT)
    for name in ("hit_rate_threshold", "capacity_threshold"):
        if not 0 < getattr(settings, name) <= 1000:
            raise invalid(name, "must be above 0")
    if settings.mails_when not in list(MailWhen):
        raise invalid("mails_when", f"must be one of {', '.join(MailWhen)}")
    template = _template(settings.template or {})
    _check_recipients(settings.recipients)
    # One whose trace or instance went can still be paused: a source that stays is not judged again.
    if old is None or _source_of(old) != _source_of(settings):
        _check_source(acting, settings)
    return replace(settings, template=template, recipients=tuple(dict.fromkeys(settings.recipients)))


def _source_of(settings: ScheduleSettings) -> tuple[object, ...]:
    return settings.source, settings.group_name, settings.trace_id, settings.instances


def _template(given: Mapping[str, Any]) -> dict[str, Any]:
    for name in _SET_BY_SOURCE:
        if given.get(name):
            raise invalid(name, "follows from the instance group each time")
    whole = spec_to_json(spec_from_json(given))
    return {name: value for name, value in whole.items() if name not in _SET_BY_SOURCE}


def _check_recipients(recipients: tuple[str, ...]) -> None:
    if len(recipients) > RECIPIENTS_AT_MOST:
        raise invalid("recipients", f"{len(recipients)} are more than {RECIPIENTS_AT_MOST}")
    for recipient in recipients:
        try:
            validate_email(recipient)
        except ValidationError as error:
            raise invalid("recipients", f"{recipient[:100]!r} is no e-mail address") from error


def _check_source(acting: Actor, settings: ScheduleSettings) -> None:
    """That it is complete, and all of it may be seen: what a report shows is the trace's traffic."""
    if settings.source not in list(ReportSource):
        raise invalid("source", f"must be one of {', '.join(ReportSource)}")
    if settings.group_name:
        group_get(acting=acting, name=settings.group_name, field="instance_group")
    else:
        acting.require_all_groups()
    if settings.source == ReportSource.TRACE:
        if settings.trace_id is None:
            raise invalid("trace", "is required for source trace")
        _check_trace(trace_get(acting=acting, trace_id=settings.trace_id), settings.group_name)
    if settings.source == ReportSource.CAPTURE and not (settings.instances or settings.group_name):
        raise invalid("instances", "instances, or an instance group, are required for source capture")
    if len(settings.instances) > INSTANCES_AT_MOST:
        raise invalid("instances", f"{len(settings.instances)} are more than {INSTANCES_AT_MOST}")
    for instance_id in settings.instances:
        own = instance_get(acting=acting, instance_id=instance_id).group.name
        if settings.group_name and own != settings.group_name:
            raise invalid("instances", f"{instance_id} is not of instance group {settings.group_name}")


def _check_trace(trace: OptimizerTrace, group_name: str) -> None:
    """That accounts of the group, who see its reports, see no other group's traffic in them."""
    if not group_name:
        return
    others = {group.name for group in trace.groups.all()} | groups_shown(trace.instances)
    others.discard(group_name)
    if others:
        raise invalid("trace", f"trace {trace.name} shows traffic of instance group {min(others)}, too")
