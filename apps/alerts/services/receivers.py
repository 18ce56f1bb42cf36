"""Webhooks that are told of alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.alerts.models import AlertDelivery, AlertReceiver
from apps.alerts.selectors import receiver_get
from apps.alerts.services.deliver import claimed_until, delivery_send
from apps.alerts.services.outbox import delivery_queue
from apps.alerts.validation import check_header, check_secret, check_severity, check_timeout, check_url
from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.common.conditions import Severity
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.validation.values import check_object_name
from kvcm_platform.core.validation.versions import require_version

RECEIVERS_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """What admins set. `secret` is the value of the header `secret_header`; empty = no such header."""

    url: str
    secret_header: str = "Authorization"  # noqa: S105 - the name of a header
    secret: str = ""
    least_severity: Severity = Severity.WARNING
    sends_resolved: bool = True
    timeout_seconds: float = 5.0
    is_enabled: bool = True


def receiver_add(*, acting: Actor, name: str, settings: ReceiverSettings) -> AlertReceiver:
    """Add a receiver. Raises INVALID_ARGUMENT, DUPLICATE for a taken name, CAPACITY for too many."""
    _require_admin(acting)
    check_object_name(name)
    receiver = AlertReceiver(name=name, updated_at=timezone.now())
    _apply(receiver, settings)
    with transaction.atomic():
        if AlertReceiver.objects.filter(name=name).exists():
            raise DomainError(Code.DUPLICATE, f"alert receiver {name} exists", field="name")
        if AlertReceiver.objects.count() >= RECEIVERS_AT_MOST:
            raise DomainError(Code.CAPACITY, f"there are {RECEIVERS_AT_MOST} receivers already")
        receiver.save(force_insert=True)
        audit_record(
            acting=acting,
            action="alert_receiver.add",
            kind="alert_receiver",
            name=name,
            after=_state(receiver),
        )
    return receiver


@transaction.atomic
def receiver_update(
    *, acting: Actor, name: str, changes: Mapping[str, Any], expected_version: int | None = None
) -> AlertReceiver:
    """Change a receiver. Raises NOT_FOUND, INVALID_ARGUMENT, and CONFLICT for a stale `expected_version`."""
    _require_admin(acting)
    receiver_get(name=name)
    receiver = AlertReceiver.objects.select_for_update().get(name=name)
    require_version(stored=receiver.version, given=expected_version)
    before = _state(receiver)
    _apply(receiver, replace(_settings(receiver), **changes))
    receiver.version += 1
    receiver.updated_at = timezone.now()
    receiver.save(force_update=True)
    audit_record(
        acting=acting,
        action="alert_receiver.update",
        kind="alert_receiver",
        name=name,
        before=before,
        after=_state(receiver),
    )
    return receiver


@transaction.atomic
def receiver_remove(*, acting: Actor, name: str) -> None:
    """Remove a receiver with its deliveries; what waits for it is not sent. Raises NOT_FOUND."""
    _require_admin(acting)
    receiver = receiver_get(name=name)
    audit_record(
        acting=acting,
        action="alert_receiver.remove",
        kind="alert_receiver",
        name=name,
        before=_state(receiver),
    )
    receiver.delete()


def receiver_test(*, acting: Actor, name: str) -> AlertDelivery:
    """Send a message that says it is a test, now and once; returns how it went. Raises NOT_FOUND."""
    _require_admin(acting)
    receiver = receiver_get(name=name)
    now = timezone.now()
    with transaction.atomic():
        # Claimed as it is made: a sender that comes by meanwhile would send it, too.
        claimed = claimed_until(receiver, now=now)
        delivery = delivery_queue(receiver, event="test", at=now, due_at=claimed)
        audit_record(acting=acting, action="alert_receiver.test", kind="alert_receiver", name=name)
    return delivery_send(delivery=delivery, is_last_try=True)


def _require_admin(acting: Actor) -> None:
    acting.require(Role.ADMIN)
    acting.require_all_groups()


def _apply(receiver: AlertReceiver, settings: ReceiverSettings) -> None:
    for field in ("sends_resolved", "is_enabled"):
        if not isinstance(getattr(settings, field), bool):
            raise invalid(field.removeprefix("is_"), "must be true or false")
    receiver.url = check_url(settings.url)
    receiver.secret_header = check_header(settings.secret_header)
    receiver.secret = check_secret(settings.secret)
    receiver.least_severity = check_severity("least_severity", settings.least_severity).value
    receiver.sends_resolved = settings.sends_resolved
    receiver.timeout_seconds = check_timeout(settings.timeout_seconds)
    receiver.is_enabled = settings.is_enabled


def _settings(receiver: AlertReceiver) -> ReceiverSettings:
    return ReceiverSettings(
        url=receiver.url,
        secret_header=receiver.secret_header,
        secret=receiver.secret,
        least_severity=Severity(receiver.least_severity),
        sends_resolved=receiver.sends_resolved,
        timeout_seconds=receiver.timeout_seconds,
        is_enabled=receiver.is_enabled,
    )


def _state(receiver: AlertReceiver) -> dict[str, Any]:
    return {
        "url": receiver.url,
        "secret_header": receiver.secret_header,
        "secret": receiver.secret,
        "least_severity": receiver.least_severity,
        "sends_resolved": receiver.sends_resolved,
        "timeout_seconds": receiver.timeout_seconds,
        "is_enabled": receiver.is_enabled,
    }
