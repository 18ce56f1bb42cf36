"""Reads of rules, alerts, silences and receivers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, QuerySet, When

from apps.alerts.choices import AlertState
from apps.alerts.models import (
    Alert,
    AlertDelivery,
    AlertGroup,
    AlertReceiver,
    AlertRule,
    AlertSilence,
    AlertTransition,
)
from apps.common.actor import Actor
from apps.common.conditions import Condition, Severity, declared_conditions
from kvcm_platform.core.errors import Code, DomainError, invalid


def conditions_by_name() -> dict[str, Condition]:
    return {condition.name: condition for condition in declared_conditions()}


def condition_get(*, name: str) -> Condition:
    """Raises INVALID_ARGUMENT for one that no app declares."""
    condition = conditions_by_name().get(name)
    if condition is None:
        raise invalid("condition", f"there is no condition {name!r}")
    return condition


def rule_list() -> QuerySet[AlertRule]:
    return AlertRule.objects.order_by("name")


def rule_get(*, name: str) -> AlertRule:
    """Raises NOT_FOUND."""
    rule = AlertRule.objects.filter(name=name).first()
    if rule is None:
        raise DomainError(Code.NOT_FOUND, f"alert rule {name} does not exist", field="name")
    return rule


def alert_list(*, acting: Actor) -> QuerySet[Alert]:
    """The alerts that `acting` may see, newest first: all, or those that concern one of its groups."""
    alerts = Alert.objects.order_by("-id").prefetch_related("groups")
    if acting.groups is None:
        return alerts
    return alerts.filter(pk__in=AlertGroup.objects.filter(name__in=acting.groups).values("alert"))


def alert_get(*, acting: Actor, pk: int) -> Alert:
    """Raises NOT_FOUND, also for one that is no matter of `acting`."""
    alert = alert_list(acting=acting).filter(pk=pk).first()
    if alert is None:
        raise DomainError(Code.NOT_FOUND, f"alert {pk} does not exist", field="id")
    return alert


def alert_transitions(*, alert: Alert) -> QuerySet[AlertTransition]:
    return AlertTransition.objects.filter(alert=alert).order_by("id")


def alert_groups(alert: Alert, *, visible: Iterable[str] | None) -> list[str] | None:
    """The groups that an alert concerns, of those that may be named; None = a matter of all alike."""
    if alert.is_of_all_groups:
        return None
    names = [group.name for group in alert.groups.all()]
    return names if visible is None else [name for name in names if name in set(visible)]


def alerts_firing(*, at_most: int) -> list[Alert]:
    """What fires now, of whatever group: the most severe first, then the newest."""
    firing = Alert.objects.filter(state=AlertState.FIRING.value).prefetch_related("groups")
    rank = Case(*(When(severity=each.value, then=number) for number, each in enumerate(Severity)))
    return list(firing.order_by(rank.desc(), "-id")[:at_most])


@dataclass(frozen=True, slots=True)
class FiringCount:
    """How many alerts of one rule fire."""

    rule: str
    severity: str
    firing: int


def firing_counts() -> list[FiringCount]:
    rows = Alert.objects.filter(state=AlertState.FIRING.value).values("rule_name", "severity")
    counted = rows.annotate(firing=Count("id")).order_by("rule_name", "severity")
    return [FiringCount(row["rule_name"], row["severity"], row["firing"]) for row in counted]


def silence_list() -> QuerySet[AlertSilence]:
    return AlertSilence.objects.order_by("-id")


def silences_active(*, now: datetime) -> list[AlertSilence]:
    return list(AlertSilence.objects.filter(until__gt=now))


def silence_get(*, pk: int) -> AlertSilence:
    """Raises NOT_FOUND."""
    silence = AlertSilence.objects.filter(pk=pk).first()
    if silence is None:
        raise DomainError(Code.NOT_FOUND, f"alert silence {pk} does not exist", field="id")
    return silence


def receiver_list() -> QuerySet[AlertReceiver]:
    return AlertReceiver.objects.order_by("name")


def receiver_get(*, name: str) -> AlertReceiver:
    """Raises NOT_FOUND."""
    receiver = AlertReceiver.objects.filter(name=name).first()
    if receiver is None:
        raise DomainError(Code.NOT_FOUND, f"alert receiver {name} does not exist", field="name")
    return receiver


def delivery_list(*, receiver: AlertReceiver) -> QuerySet[AlertDelivery]:
    return AlertDelivery.objects.filter(receiver=receiver).order_by("-id")
