"""Messages to receivers, written in the transaction of the turn that they tell."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.alerts.choices import DeliveryState
from apps.alerts.models import Alert, AlertDelivery, AlertReceiver
from apps.common.conditions import Severity

QUEUE_AT_MOST = 1000
"""Messages that may wait for one receiver; what is beyond is dropped, and noted as such."""
_RANK = {severity: rank for rank, severity in enumerate(Severity)}


def firing_queue(alert: Alert, *, at: datetime) -> int:
    """Queue "firing" for every receiver that wants alerts of this severity; returns how many."""
    receivers = _wanting(alert)
    for receiver in receivers:
        delivery_queue(receiver, event="firing", at=at, alert=alert)
    return len(receivers)


def resolved_queue(alert: Alert, *, at: datetime) -> None:
    for receiver in _wanting(alert):
        if receiver.sends_resolved:
            delivery_queue(receiver, event="resolved", at=at, alert=alert)


def delivery_queue(
    receiver: AlertReceiver,
    *,
    event: str,
    at: datetime,
    alert: Alert | None = None,
    due_at: datetime | None = None,
) -> AlertDelivery:
    """Queue one message, or note that the queue is full. `due_at` = when senders may take it, now without."""
    waiting = AlertDelivery.objects.filter(receiver=receiver, state=DeliveryState.QUEUED.value).count()
    is_full = waiting >= QUEUE_AT_MOST
    return AlertDelivery.objects.create(
        receiver=receiver,
        alert=alert,
        event=event,
        body={"event": event, "alert": None if alert is None else alert_form(alert)},
        state=(DeliveryState.DROPPED if is_full else DeliveryState.QUEUED).value,
        due_at=due_at or at,
        created_at=at,
        ended_at=at if is_full else None,
        error=f"{QUEUE_AT_MOST} messages wait already" if is_full else "",
    )


def alert_form(alert: Alert) -> dict[str, Any]:
    """What receivers get to know of an alert."""
    groups = None if alert.is_of_all_groups else [group.name for group in alert.groups.all()]
    return {
        "id": alert.pk,
        "rule": alert.rule_name,
        "condition": alert.condition,
        "severity": alert.severity,
        "subject_kind": alert.subject_kind,
        "subject": alert.subject,
        "message": alert.message,
        "value": alert.value,
        "unit": alert.unit,
        "groups": groups,
        "since": alert.since.isoformat(),
        "fired_at": None if alert.fired_at is None else alert.fired_at.isoformat(),
        "resolved_at": None if alert.resolved_at is None else alert.resolved_at.isoformat(),
    }


def _wanting(alert: Alert) -> list[AlertReceiver]:
    rank = _RANK[Severity(alert.severity)]
    receivers = AlertReceiver.objects.filter(is_enabled=True).order_by("name")
    return [receiver for receiver in receivers if _RANK[Severity(receiver.least_severity)] <= rank]
