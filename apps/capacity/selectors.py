"""Reads of reclaim runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, QuerySet, Sum

from apps.capacity.choices import OPEN_STATES
from apps.capacity.models import ReclaimRun, ReclaimTotal
from apps.common.actor import Actor
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.reclaim.runs import RunState

_SHOWN = 1000
"""Of a list that alerts are made of."""


def run_list(*, acting: Actor) -> QuerySet[ReclaimRun]:
    """The runs that `acting` may see, newest first."""
    runs = ReclaimRun.objects.order_by("-id")
    return runs if acting.groups is None else runs.filter(group_name__in=acting.groups)


def run_get(*, acting: Actor, run_id: str) -> ReclaimRun:
    """Raises NOT_FOUND, also for a run outside the actor's scope."""
    run = run_list(acting=acting).filter(run_id=run_id).first()
    if run is None:
        raise DomainError(Code.NOT_FOUND, f"reclaim run {run_id} does not exist", field="id")
    return run


def runs_by_id(run_ids: Collection[str]) -> dict[str, ReclaimRun]:
    """Those of the runs that are on record."""
    return {run.run_id: run for run in ReclaimRun.objects.filter(run_id__in=list(run_ids))}


def runs_open(*, at_most: int) -> list[ReclaimRun]:
    """Those that are not over, newest first."""
    return list(ReclaimRun.objects.filter(state__in=OPEN_STATES).order_by("-id")[:at_most])


def runs_ended(*, at_most: int) -> list[ReclaimRun]:
    """The newest of those that are over."""
    return list(ReclaimRun.objects.exclude(state__in=OPEN_STATES).order_by("-id")[:at_most])


def runs_waiting(*, before: datetime) -> list[ReclaimRun]:
    """Runs that chose their last block before a moment and whose blocks are still there, oldest first."""
    runs = ReclaimRun.objects.filter(state=RunState.DELETING.value, marked_at__lt=before)
    return list(runs.order_by("marked_at", "id")[:_SHOWN])


def runs_failed(*, since: datetime) -> list[ReclaimRun]:
    """Runs that failed after `since`, newest first."""
    runs = ReclaimRun.objects.filter(state=RunState.FAILED.value, ended_at__gte=since)
    return list(runs.order_by("-id")[:_SHOWN])


def run_totals() -> list[ReclaimTotal]:
    """What all runs did, by group and trigger."""
    return list(ReclaimTotal.objects.order_by("group_name", "trigger"))


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """Of one group: runs that are not over, and what they chose that is not deleted yet."""

    group: str
    runs: int
    waiting_blocks: int
    waiting_bytes: int


def open_runs() -> list[OpenRuns]:
    rows = ReclaimRun.objects.filter(state__in=OPEN_STATES).order_by("group_name").values("group_name")
    left = {
        name: Sum(F(f"chosen_{name}") - F(f"freed_{name}") - F(f"failed_{name}"))
        for name in ("blocks", "bytes")
    }
    return [
        OpenRuns(row["group_name"], row["count"], max(0, row["blocks"]), max(0, row["bytes"]))
        for row in rows.annotate(count=Count("id"), **left)
    ]


def duration_of(run: ReclaimRun, now: datetime) -> timedelta | None:
    """From its begin to its end, or to now; None for one that did not begin."""
    if run.began_at is None:
        return None
    return max(timedelta(), (run.ended_at or now) - run.began_at)
