"""Reads of migrations."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from django.db.models import Count, Exists, OuterRef, QuerySet

from apps.common.actor import Actor
from apps.copies.choices import OPEN_STATES, RunState
from apps.copies.models import CopyRun, PolicyTrouble
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.migration import CopyRequest, Direction
from kvcm_platform.duties.copy_waves import Stop

_SHOWN = 1000
"""Of a list that alerts are made of."""


def run_list(*, acting: Actor) -> QuerySet[CopyRun]:
    """The runs that `acting` may see, newest first."""
    runs = CopyRun.objects.order_by("-id")
    return runs if acting.groups is None else runs.filter(group_name__in=acting.groups)


def run_get(*, acting: Actor, run_id: int) -> CopyRun:
    """Raises NOT_FOUND, also for a run outside the actor's scope."""
    run = run_list(acting=acting).filter(pk=run_id).first()
    if run is None:
        raise DomainError(Code.NOT_FOUND, f"migration {run_id} does not exist", field="id")
    return run


def open_requests(*, at_most: int) -> list[CopyRequest]:
    """What was requested and is not over, first what nobody looked at for longest.

    Those that cannot go on for now must not keep the others from their turn.
    """
    runs = CopyRun.objects.filter(
        direction=Direction.REQUEST.value,
        state__in=[state.value for state in OPEN_STATES],
        is_cancel_wanted=False,
    )
    return [run.request() for run in runs.order_by("updated_at", "id")[:at_most]]


def requests_waiting() -> list[CopyRun]:
    """What was requested and whose last round ended for its storages or for want of room; newest first."""
    runs = CopyRun.objects.filter(
        direction=Direction.REQUEST.value,
        state__in=[state.value for state in OPEN_STATES],
        stop__in=[Stop.STORAGE.value, Stop.NO_ROOM.value],
    )
    return list(runs.order_by("-id")[:_SHOWN])


def requests_failed(*, since: datetime) -> list[CopyRun]:
    """Requests that failed after `since`, newest first, unless the same way was gone through later."""
    again = CopyRun.objects.filter(
        id__gt=OuterRef("id"),
        direction=Direction.REQUEST.value,
        state=RunState.DONE.value,
        **{name: OuterRef(name) for name in ("group_name", "instance_id", "source", "target")},
    )
    runs = CopyRun.objects.filter(
        direction=Direction.REQUEST.value, state=RunState.FAILED.value, ended_at__gte=since
    )
    return list(runs.filter(~Exists(again)).order_by("-id")[:_SHOWN])


def policy_troubles() -> list[PolicyTrouble]:
    """What stands in the way of policies."""
    return list(PolicyTrouble.objects.order_by("group_name", "direction")[:_SHOWN])


def eta_of(run: CopyRun) -> timedelta | None:
    """How long a running migration will still take at the pace it had; None where nothing says so."""
    if run.state != RunState.RUNNING or not run.planned_bytes or not run.busy_seconds or not run.moved_bytes:
        return None
    left = max(0, run.planned_bytes - run.moved_bytes)
    return timedelta(seconds=left * run.busy_seconds / run.moved_bytes)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a migration is; planned figures are None where unknown."""

    id: int
    state: str
    planned_blocks: int | None
    planned_bytes: int | None
    copied_blocks: int
    copied_bytes: int
    there_blocks: int
    skipped_blocks: int
    failed_blocks: int
    stop: str
    detail: str
    eta: timedelta | None


def progress_of(run: CopyRun) -> RunProgress:
    names = [member.name for member in fields(RunProgress) if member.name not in {"id", "eta"}]
    return RunProgress(id=run.pk, eta=eta_of(run), **{name: getattr(run, name) for name in names})


def open_counts() -> dict[tuple[str, str], int]:
    """(group, direction) -> runs that are not over."""
    runs = CopyRun.objects.filter(state__in=[state.value for state in OPEN_STATES]).order_by()
    rows = runs.values_list("group_name", "direction").annotate(Count("id"))
    return {(group, direction): count for group, direction, count in rows}
