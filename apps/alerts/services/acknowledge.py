"""Somebody takes an alert on."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.alerts.choices import AlertState
from apps.alerts.models import Alert, AlertTransition
from apps.alerts.selectors import alert_get
from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.validation.values import text


@transaction.atomic
def alert_acknowledge(*, acting: Actor, pk: int, is_acknowledged: bool = True, note: str = "") -> Alert:
    """Note that somebody looks after a firing alert, or no longer does. Repeating it changes nothing.

    Raises NOT_FOUND, and CONFLICT for one that does not fire.
    """
    acting.require(Role.OPERATOR)
    text("note", note, is_required=False, at_most=2000)
    alert_get(acting=acting, pk=pk)
    alert = Alert.objects.select_for_update().get(pk=pk)
    if alert.state != AlertState.FIRING.value:
        raise DomainError(Code.CONFLICT, f"alert {pk} is {alert.state}: only a firing one is acknowledged")
    if is_acknowledged == (alert.acknowledged_at is not None) and note == alert.acknowledge_note:
        return alert
    now = timezone.now()
    alert.acknowledged_at = now if is_acknowledged else None
    alert.acknowledged_by = acting.name if is_acknowledged else ""
    alert.acknowledge_note = note if is_acknowledged else ""
    alert.save(update_fields=["acknowledged_at", "acknowledged_by", "acknowledge_note"])
    what = "acknowledged" if is_acknowledged else "unacknowledged"
    AlertTransition.objects.create(alert=alert, at=now, what=what, message=note, by=acting.name)
    audit_record(
        acting=acting,
        action=f"alert.{'acknowledge' if is_acknowledged else 'unacknowledge'}",
        kind="alert",
        name=f"{alert.rule_name} {alert.subject}",
        after={"id": pk, "note": note},
    )
    return alert
