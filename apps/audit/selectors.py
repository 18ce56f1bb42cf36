"""Reads of the audit log."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.audit.models import AuditEntry


def audit_entry_list() -> QuerySet[AuditEntry]:
    """All entries, newest first."""
    return AuditEntry.objects.order_by("-id")
