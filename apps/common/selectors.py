"""Reads of the shared rows."""

from __future__ import annotations

from datetime import datetime

from apps.common.models import PendingPublication, RegistryState, StepDone


def pending_publications(*, before: datetime) -> list[int]:
    """Versions committed before a moment that Redis may have missed."""
    rows = PendingPublication.objects.filter(created_at__lt=before)
    return list(rows.values_list("version", flat=True))


def registry_version() -> int:
    """The version of the newest committed change; 0 before the first one."""
    return RegistryState.objects.values_list("version", flat=True).first() or 0


def is_step_done(name: str) -> bool:
    """Whether a step of the installation was done before."""
    return StepDone.objects.filter(name=name).exists()
