"""Reads of the shared rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from apps.common.models import IndexStamp, PendingPublication, RegistryRemoval, RegistryState, StepDone


def pending_publications(*, before: datetime) -> list[int]:
    """Versions committed before a moment that Redis may have missed."""
    rows = PendingPublication.objects.filter(created_at__lt=before)
    return list(rows.values_list("version", flat=True))


@dataclass(frozen=True, slots=True)
class Removal:
    """An object that left the registry in `version`; its keys are named by `number`."""

    id: int
    kind: str
    name: str
    number: int
    version: int


def removals_due(*, now: datetime, at_most: int) -> list[Removal]:
    """Removals whose traces may go, those that wait longest first."""
    rows = RegistryRemoval.objects.filter(due_at__lte=now).order_by("due_at", "pk")[:at_most]
    return [Removal(row.pk, row.kind, row.name, row.number, row.version) for row in rows]


def registry_version() -> int:
    """The version of the newest committed change; 0 before the first one."""
    return RegistryState.objects.values_list("version", flat=True).first() or 0


def is_step_done(name: str) -> bool:
    """Whether a step of the installation was done before."""
    return StepDone.objects.filter(name=name).exists()


def steps_done(names: Iterable[str]) -> set[str]:
    """Those of these steps of the installation that were done before."""
    return set(StepDone.objects.filter(name__in=list(names)).values_list("name", flat=True))


def index_stamps() -> dict[str, int]:
    """The newest stamps of the living index, by key."""
    return dict(IndexStamp.objects.values_list("key", "at_ms"))
