"""Silences: for a while, receivers are not told."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from apps.alerts.choices import AlertState
from apps.alerts.models import Alert, AlertSilence
from apps.alerts.selectors import rule_get, silence_get, silences_active
from apps.alerts.services.turns import alerts_silence
from apps.alerts.validation import check_until
from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.validation.values import text

SILENCES_AT_MOST = 1000


@transaction.atomic
def silence_add(
    *, acting: Actor, until: datetime, reason: str, rule_name: str = "", subject: str = ""
) -> AlertSilence:
    """Keep alerts from being told until then. Empty `rule_name` or `subject` (a pattern) fit everything.

    Raises INVALID_ARGUMENT, NOT_FOUND for a rule that does not exist, CAPACITY for too many.
    """
    acting.require(Role.OPERATOR)
    acting.require_all_groups()
    now = timezone.now()
    text("reason", reason, is_required=True, at_most=2000)
    text("subject", subject, is_required=False, at_most=256)
    if rule_name:
        rule_get(name=rule_name)
    if AlertSilence.objects.filter(until__gt=now).count() >= SILENCES_AT_MOST:
        raise DomainError(Code.CAPACITY, f"there are {SILENCES_AT_MOST} silences already")
    silence = AlertSilence.objects.create(
        rule_name=rule_name,
        subject=subject,
        until=check_until(until, now),
        reason=reason,
        created_by=acting.name,
        created_at=now,
    )
    audit_record(
        acting=acting,
        action="alert_silence.add",
        kind="alert_silence",
        name=str(silence.pk),
        after={"rule_name": rule_name, "subject": subject, "until": until.isoformat(), "reason": reason},
    )
    _apply(now)
    return silence


@transaction.atomic
def silence_end(*, acting: Actor, pk: int) -> AlertSilence:
    """End a silence now; what fires and was not told is told with the next round. Raises NOT_FOUND."""
    acting.require(Role.OPERATOR)
    acting.require_all_groups()
    silence = silence_get(pk=pk)
    now = timezone.now()
    if silence.until > now:
        silence.until = now
        silence.save(update_fields=["until"])
        audit_record(acting=acting, action="alert_silence.end", kind="alert_silence", name=str(pk))
        _apply(now)
    return silence


def _apply(now: datetime) -> None:
    active = Alert.objects.select_for_update().exclude(state=AlertState.RESOLVED.value)
    alerts_silence(alerts=list(active), silences=silences_active(now=now))
