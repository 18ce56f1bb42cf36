"""Jobs as leases: taken by whoever has room, kept by a sign of life, handed on when that stays out.

Every change of a running job asks for its holder's name, so that one who was away for too long and comes back
changes nothing any more.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, F, Min, Q
from django.utils import timezone

from apps.common.storable import storable
from apps.optimizer_reports.choices import (
    OPEN_RUNS,
    JobKind,
    JobState,
    RunState,
    TraceState,
)
from apps.optimizer_reports.models import OptimizerJob, OptimizerRun, OptimizerTrace

LOST_SECONDS = 15.0
"""Without a sign of life for so long a job is taken over."""
MOST_TRIES = 3
_RUNS_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Lease:
    job: OptimizerJob
    holder: str


def job_take() -> Lease | None:
    """The next job that nobody carries out, now the caller's; None where there is none.

    Traces first: people wait for them, and they are short. Then the run that has the fewest jobs running, so
    that a large one does not keep the others waiting.
    """
    now = timezone.now()
    for job_id in _candidates(now):
        lease = _take(job_id, now)
        if lease is not None:
            return lease
    return None


def jobs_lost(now: datetime) -> Q:
    """Jobs of holders that are silent."""
    far = timedelta(seconds=LOST_SECONDS)
    # One seen in the future was seen before the clock went back: it is lost, too.
    silent = Q(seen_at__lt=now - far) | Q(seen_at__gt=now + far)
    return Q(state=JobState.RUNNING.value) & silent


def _free(now: datetime) -> Q:
    return Q(state=JobState.QUEUED.value) | jobs_lost(now)


def _candidates(now: datetime) -> list[int]:
    free = OptimizerJob.objects.filter(_free(now), tries__lt=MOST_TRIES)
    reads = list(free.filter(kind=JobKind.READ.value).order_by("id").values_list("id", flat=True)[:10])
    running = Count("jobs", filter=Q(jobs__state=JobState.RUNNING.value))
    runs = OptimizerRun.objects.filter(state__in=OPEN_RUNS, is_cancel_asked=False).annotate(running=running)
    order = list(runs.order_by("running", "id").values_list("id", flat=True)[:_RUNS_LOOKED_AT])
    waiting = free.filter(run__in=order).order_by().values("run_id").annotate(first=Min("id"))
    firsts = {row["run_id"]: row["first"] for row in waiting}
    return [*reads, *(firsts[run_id] for run_id in order if run_id in firsts)]


@transaction.atomic
def _take(job_id: int, now: datetime) -> Lease | None:
    job = OptimizerJob.objects.select_for_update().filter(_free(now), pk=job_id).first()
    if job is None:
        return None
    if job.run_id is not None and job.run.is_cancel_asked:
        return None
    holder = secrets.token_hex(16)
    OptimizerJob.objects.filter(pk=job_id).update(
        state=JobState.RUNNING.value,
        holder=holder,
        seen_at=now,
        started_at=job.started_at or now,
        tries=F("tries") + 1,
        progress=0.0,
        reason="",
    )
    if job.run_id is not None:
        began = OptimizerRun.objects.filter(pk=job.run_id, state=RunState.QUEUED.value)
        began.update(state=RunState.RUNNING.value, started_at=now)
    else:
        OptimizerTrace.objects.filter(pk=job.trace_id).update(state=TraceState.READING.value, progress=0.0)
    job.refresh_from_db()
    return Lease(job, holder)


def lease_beat(lease: Lease, progress: float) -> bool:
    """Put progress on record; False when the job is to stop, or is another one's by now, or gone."""
    held = OptimizerJob.objects.filter(pk=lease.job.pk, holder=lease.holder, state=JobState.RUNNING.value)
    if not held.update(seen_at=timezone.now(), progress=progress):
        return False
    job = lease.job
    if job.run_id is None:
        OptimizerTrace.objects.filter(pk=job.trace_id).update(progress=progress)
        return True
    run_progress_note(job.run_id)
    return not OptimizerRun.objects.filter(pk=job.run_id, is_cancel_asked=True).exists()


def run_progress_note(run_id: int) -> None:
    """A run is as far as its jobs are, each counted by how long it is expected to take."""
    done = total = 0.0
    jobs = OptimizerJob.objects.filter(run_id=run_id)
    for state, progress, seconds in jobs.values_list("state", "progress", "estimate_seconds"):
        total += seconds
        done += seconds * (1.0 if state == JobState.DONE else progress)
    share = min(1.0, done / total) if total else 0.0
    OptimizerRun.objects.filter(pk=run_id, state__in=OPEN_RUNS).exclude(progress=share).update(progress=share)


def jobs_give_up() -> list[OptimizerJob]:
    """End jobs whose holders died MOST_TRIES times, and return them."""
    now = timezone.now()
    given_up = []
    for job in OptimizerJob.objects.filter(_free(now), tries__gte=MOST_TRIES).order_by("id")[:100]:
        lost = OptimizerJob.objects.filter(_free(now), pk=job.pk, tries__gte=MOST_TRIES)
        ended = lost.update(
            state=JobState.FAILED.value,
            holder="",
            ended_at=now,
            reason=f"whoever carried it out died {MOST_TRIES} times",
        )
        if ended:
            job.refresh_from_db()
            given_up.append(job)
    return given_up


def job_end(
    lease: Lease, state: JobState, *, reason: str = "", busy_seconds: float = 0.0, peak_bytes: int = 0
) -> bool:
    """The last word on a job, in the transaction of what it found; False when it is another one's by now."""
    held = OptimizerJob.objects.filter(pk=lease.job.pk, holder=lease.holder, state=JobState.RUNNING.value)
    return bool(
        held.update(
            state=state.value,
            reason=storable(reason)[:2000],
            ended_at=timezone.now(),
            busy_seconds=busy_seconds,
            peak_bytes=peak_bytes,
            holder="",
            **({"progress": 1.0} if state is JobState.DONE else {}),
        )
    )
