"""Reads of the audit log."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from apps.audit.models import AuditEntry
from apps.common.actor import Actor


def audit_entry_list(*, acting: Actor) -> QuerySet[AuditEntry]:
    """The entries that `acting` may see, newest first: all, or its own and those of its groups."""
    entries = AuditEntry.objects.order_by("-id")
    if acting.groups is None:
        return entries
    of_groups = Q(object_kind="instance_group", object_name__in=acting.groups)
    return entries.filter(of_groups | Q(actor=acting.name))
