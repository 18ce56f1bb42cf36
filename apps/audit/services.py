"""Writes audit entries, inside the transaction of the act itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.audit.masking import masked
from apps.audit.models import AuditEntry
from apps.common.actor import Actor


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
