"""Steps in the life of alerts. Each writes row, transition, event and messages to receivers together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import transaction

from apps.alerts.choices import AlertState
from apps.alerts.models import Alert, AlertGroup, AlertTransition
from apps.alerts.services.outbox import firing_queue, resolved_queue
from apps.alerts.silencing import Pattern, is_silenced
from apps.audit.services import event_record
from apps.common.conditions import Finding, Severity


def alert_begin(alert: Alert, finding: Finding, *, at: datetime, is_firing: bool) -> None:
    """A condition began to hold: the alert is pending, or fires at once."""
    alert.since = alert.last_seen_at = at
    alert.is_of_all_groups = finding.groups is None
    alert.state = AlertState.PENDING.value
    alert_note(alert, finding, at=at)
    alert.save(force_insert=True)
    _groups_write(alert, finding.groups)
    if is_firing:
        alert_fire(alert, at=at)
    else:
        _transition(alert, at=at, what="pending")


def alert_note(alert: Alert, finding: Finding, *, at: datetime) -> None:
    """Take over what was found now; the caller saves."""
    alert.last_seen_at = at
    alert.message = finding.message
    alert.value = finding.value


def groups_note(alert: Alert, finding: Finding) -> None:
    """Bring the groups that an alert concerns up to date; it carries them prefetched."""
    if alert.is_of_all_groups != (finding.groups is None):
        alert.is_of_all_groups = finding.groups is None
        alert.save(update_fields=["is_of_all_groups"])
    if {group.name for group in alert.groups.all()} != set(finding.groups or ()):
        AlertGroup.objects.filter(alert=alert).delete()
        _groups_write(alert, finding.groups)
        _prefetched(alert).pop("groups", None)


def alert_fire(alert: Alert, *, at: datetime) -> None:
    alert.state = AlertState.FIRING.value
    alert.fired_at = at
    alert.save(force_update=True)
    _transition(alert, at=at, what="firing")
    _event(alert, at=at, kind="alert.firing", message=alert.message, severity=Severity(alert.severity))


@transaction.atomic
def alert_resolve(alert: Alert, *, at: datetime, why: str = "", by: str = "") -> None:
    """The end of a firing alert. One that was pending only leaves no trace."""
    if alert.state == AlertState.PENDING.value:
        alert.delete()
        return
    alert.state = AlertState.RESOLVED.value
    alert.resolved_at = at
    alert.save(force_update=True)
    _transition(alert, at=at, what="resolved", message=why, by=by)
    reason = f" ({why})" if why else ""
    told = f"{alert.rule_name} of {alert.subject} is over{reason}."
    _event(alert, at=at, kind="alert.resolved", message=told, severity=Severity.INFO)
    if alert.notified_at is not None:
        resolved_queue(alert, at=at)


@transaction.atomic
def alerts_resolve(*, rule_name: str, at: datetime, why: str, by: str = "") -> int:
    """Resolve whatever a rule raised, because the rule is no more; returns how many."""
    rows = Alert.objects.select_for_update().filter(rule_name=rule_name)
    alerts = list(rows.exclude(state=AlertState.RESOLVED.value))
    for alert in alerts:
        alert_resolve(alert, at=at, why=why, by=by)
    return len(alerts)


@transaction.atomic
def alerts_silence(*, alerts: Iterable[Alert], silences: Sequence[Pattern]) -> None:
    """Say of each alert whether a silence fits it now."""
    for alert in alerts:
        fits = is_silenced(silences, rule_name=alert.rule_name, subject=alert.subject)
        if fits != alert.is_silenced:
            alert.is_silenced = fits
            alert.save(update_fields=["is_silenced"])


@transaction.atomic
def alerts_tell(*, alerts: Iterable[Alert], at: datetime) -> int:
    """Queue the message about each firing alert that receivers were not told of; silenced ones wait."""
    told = 0
    for alert in alerts:
        if alert.state == AlertState.FIRING.value and alert.notified_at is None and not alert.is_silenced:
            alert.notified_at = at
            alert.save(update_fields=["notified_at"])
            told += firing_queue(alert, at=at)
    return told


def _prefetched(alert: Alert) -> dict[str, object]:
    """What was fetched along with the alert and must go when it is changed."""
    return getattr(alert, "_prefetched_objects_cache", {})


def _groups_write(alert: Alert, groups: tuple[str, ...] | None) -> None:
    AlertGroup.objects.bulk_create(AlertGroup(alert=alert, name=name) for name in sorted(set(groups or ())))


def _transition(alert: Alert, *, at: datetime, what: str, message: str = "", by: str = "") -> None:
    AlertTransition.objects.create(alert=alert, at=at, what=what, message=message or alert.message, by=by)


def _event(alert: Alert, *, at: datetime, kind: str, message: str, severity: Severity) -> None:
    groups = None if alert.is_of_all_groups else [group.name for group in alert.groups.all()]
    event_record(
        at=at,
        kind=kind,
        severity=severity,
        subject_kind=alert.subject_kind,
        subject=alert.subject,
        message=message,
        groups=groups,
    )
