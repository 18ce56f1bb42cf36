"""Reads of runs, jobs and what they found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median_low
from typing import Any

from django.db.models import Count, Exists, F, Min, OuterRef, QuerySet, Sum

from apps.common.actor import Actor
from apps.optimizer_reports.choices import OPEN_JOBS, OPEN_RUNS, JobState, RunState
from apps.optimizer_reports.models import OptimizerJob, OptimizerResult, OptimizerRun, OptimizerRunGroup
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.analysis.order import unpacked
from kvcm_platform.optimizer.analysis.plan import START_SECONDS, Measured, usual_rate

_RATED_JOBS = 200
_STARTS_LOOKED_AT = 9


def run_list(*, acting: Actor) -> QuerySet[OptimizerRun]:
    """The runs that `acting` may see, newest first."""
    runs = OptimizerRun.objects.order_by("-id").prefetch_related("groups")
    if acting.groups is None:
        return runs
    shown = OptimizerRunGroup.objects.filter(run=OuterRef("pk"))
    foreign = shown.exclude(name__in=acting.groups)
    return runs.filter(is_of_all_groups=False).filter(Exists(shown), ~Exists(foreign))


def run_get(*, acting: Actor, run_id: int) -> OptimizerRun:
    """Raises NOT_FOUND, also for a run outside the actor's scope."""
    run = run_list(acting=acting).filter(pk=run_id).first()
    if run is None:
        raise DomainError(Code.NOT_FOUND, f"optimizer run {run_id} does not exist", field="id")
    return run


def runs_get(*, acting: Actor, run_ids: Sequence[int]) -> list[OptimizerRun]:
    """In the order asked for. Raises NOT_FOUND for the first that is not to be seen."""
    found = {run.pk: run for run in run_list(acting=acting).filter(pk__in=list(run_ids))}
    for run_id in run_ids:
        if run_id not in found:
            raise DomainError(Code.NOT_FOUND, f"optimizer run {run_id} does not exist", field="ids")
    return [found[run_id] for run_id in run_ids]


def runs_open(*, at_most: int) -> list[OptimizerRun]:
    """Those that are not over, newest first, with their jobs."""
    runs = OptimizerRun.objects.filter(state__in=OPEN_RUNS).order_by("-id")
    return list(runs.prefetch_related("groups", "jobs")[:at_most])


def runs_ended(*, at_most: int) -> list[OptimizerRun]:
    """The newest of those that are over."""
    runs = OptimizerRun.objects.exclude(state__in=OPEN_RUNS).order_by("-id")
    return list(runs.prefetch_related("groups")[:at_most])


def runs_failed(*, since: datetime) -> list[OptimizerRun]:
    """Runs that failed after a moment, newest first."""
    runs = OptimizerRun.objects.filter(state=RunState.FAILED.value, ended_at__gte=since)
    return list(runs.order_by("-id").prefetch_related("groups")[:1000])


def jobs_of(run: OptimizerRun) -> list[OptimizerJob]:
    return list(run.jobs.order_by("number"))


def results_of(run: OptimizerRun) -> list[dict[str, Any]]:
    """What the finished jobs of a run found, in their order: what `analysis.work.analyse` gave."""
    rows = OptimizerResult.objects.filter(job__run=run, job__state=JobState.DONE.value)
    return [unpacked(bytes(row.content)) for row in rows.order_by("job__number").iterator(chunk_size=8)]


def measured(policies: Iterable[str]) -> Measured:
    """How fast the newest jobs of each policy were, and what they took beside their work.

    Only jobs with more work than the start of a process is worth tell a rate: a short one that compiled
    would make the policy look slow for good. The middle of the starts is told, so that one that compiled or
    met a busy machine counts for little.
    """
    rates, starts = {}, {}
    for policy in set(policies):
        jobs = OptimizerJob.objects.filter(policy=policy, state=JobState.DONE.value).order_by("-id")
        newest = [row for row in jobs.values_list("work", "busy_seconds")[:_RATED_JOBS] if row[1] > 0]
        if not newest:
            continue
        least_work = 2 * START_SECONDS * usual_rate(policy)
        rated = [(work, busy) for work, busy in newest if work >= least_work]
        if rated:
            seconds = sum(max(busy - START_SECONDS, busy / 2) for _, busy in rated)
            rates[policy] = sum(work for work, _ in rated) / seconds
        rate = rates.get(policy) or usual_rate(policy)
        starts[policy] = median_low(max(0.0, busy - work / rate) for work, busy in newest[:_STARTS_LOOKED_AT])
    return Measured(rates, starts)


def jobs_waiting() -> int:
    """Jobs that nobody carries out yet."""
    return OptimizerJob.objects.filter(state=JobState.QUEUED.value).count()


def open_estimate_seconds() -> float:
    """How long what is asked for and not done yet may take, one job after the other."""
    left = F("estimate_seconds") * (1.0 - F("progress"))
    jobs = OptimizerJob.objects.filter(state__in=OPEN_JOBS).aggregate(total=Sum(left))
    return round(jobs["total"] or 0.0, 3)


def job_waiting_longest(*, now: datetime) -> timedelta | None:
    """How long the first of the queued jobs has waited; None where none waits, or some job goes on."""
    jobs = OptimizerJob.objects.order_by()
    if jobs.filter(state=JobState.RUNNING.value).exists():
        return None
    oldest = jobs.filter(state=JobState.QUEUED.value).aggregate(first=Min("created_at"))["first"]
    return None if oldest is None else max(timedelta(), now - oldest)


def jobs_by_state() -> dict[str, int]:
    """Of the jobs of open runs, and of traces that are read."""

    rows = OptimizerJob.objects.filter(state__in=[JobState.QUEUED.value, JobState.RUNNING.value])
    counted = rows.order_by().values("state").annotate(count=Count("id"))
    return {row["state"]: row["count"] for row in counted}
