"""Writes audit entries and events, inside the transaction of what they tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from apps.audit.masking import masked
from apps.audit.models import AuditEntry, Event, EventGroup
from apps.common.actor import Actor
from apps.common.conditions import Severity

EVENTS_KEPT = timedelta(days=30)
EVENTS_AT_MOST = 50_000


def audit_record(
    *,
    acting: Actor,
    action: str,
    kind: str,
    name: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Note that `acting` did `action` (as in "storage.disable") to the object; secrets are masked.

    Where both states are given only the members that differ are kept.
    """
    if before is not None and after is not None:
        differing = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        before = {key: before.get(key) for key in sorted(differing)}
        after = {key: after.get(key) for key in sorted(differing)}
    AuditEntry.objects.create(
        actor=acting.name,
        token_name=acting.token_name,
        address=acting.address[:64],
        request_id=acting.request_id[:128],
        action=action,
        object_kind=kind,
        object_name=name[:256],
        before=masked(before),
        after=masked(after),
    )


@transaction.atomic
def event_record(
    *,
    at: datetime,
    kind: str,
    subject_kind: str,
    subject: str,
    message: str,
    severity: Severity = Severity.INFO,
    groups: Collection[str] | None = None,
) -> None:
    """Note that something happened (`kind` as in "storage.unavailable"), once a turn and not once a look.

    `groups` = the instance groups concerned, for accounts limited to some; None = all of them alike.
    """
    event = Event.objects.create(
        at=at,
        kind=kind,
        severity=severity.value,
        subject_kind=subject_kind,
        subject=subject[:256],
        message=masked(message),
        is_of_all_groups=groups is None,
    )
    EventGroup.objects.bulk_create(EventGroup(event=event, name=name) for name in sorted(set(groups or ())))


def events_forget(*, now: datetime, at_most: int = 5000) -> int:
    """Delete up to `at_most` events that are old or too many, the oldest first; returns how many."""
    newest = Event.objects.order_by("-id").values_list("id", flat=True)[EVENTS_AT_MOST : EVENTS_AT_MOST + 1]
    too_many = newest.first() or 0
    old = Event.objects.filter(at__lt=now - EVENTS_KEPT) | Event.objects.filter(id__lte=too_many)
    ids = list(old.order_by("id").values_list("id", flat=True)[:at_most])
    with transaction.atomic():
        EventGroup.objects.filter(event__in=ids).delete()
        Event.objects.filter(pk__in=ids).delete()
    return len(ids)
