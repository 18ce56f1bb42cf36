"""Reads of the audit log and of events."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from apps.audit.models import AuditEntry, Event, EventGroup
from apps.common.actor import Actor


def audit_entry_list(*, acting: Actor) -> QuerySet[AuditEntry]:
    """The entries that `acting` may see, newest first: all, or its own and those of its groups."""
    entries = AuditEntry.objects.order_by("-id")
    if acting.groups is None:
        return entries
    of_groups = Q(object_kind="instance_group", object_name__in=acting.groups)
    return entries.filter(of_groups | Q(actor=acting.name))


def event_list(*, acting: Actor) -> QuerySet[Event]:
    """The events that `acting` may see, newest first: all, or those that concern one of its groups."""
    events = Event.objects.order_by("-id").prefetch_related("groups")
    if acting.groups is None:
        return events
    return events.filter(pk__in=EventGroup.objects.filter(name__in=acting.groups).values("event"))
