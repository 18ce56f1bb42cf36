"""Puts right what a crash left: cancelled jobs without a holder, ended runs, files without a row."""

from __future__ import annotations

import shutil
import time

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.common.queue import OPTIMIZER_TASK, enqueue
from apps.optimizer_reports.choices import OPEN_JOBS, OPEN_RUNS, JobKind, JobState, TraceState
from apps.optimizer_reports.folders import traces_folder
from apps.optimizer_reports.models import OptimizerJob, OptimizerRun, OptimizerTrace
from apps.optimizer_reports.selectors.runs import jobs_waiting
from apps.optimizer_reports.services.leases import jobs_give_up, jobs_lost
from apps.optimizer_reports.services.reading import reading_queue, trace_fail
from apps.optimizer_reports.services.run_ends import run_settle
from apps.optimizer_reports.services.runs import runs_forget

log = structlog.get_logger(__name__)

SWEPT_AFTER_SECONDS = 6 * 3600.0
"""Files are there before their row is: an upload takes its time."""
_AT_ONCE = 200


def optimizer_resume() -> dict[str, int]:
    """What must not wait: jobs of dead holders, runs whose last job is over, work no message tells of."""
    given_up = jobs_give_up()
    for job in given_up:
        if job.kind == JobKind.READ:
            with transaction.atomic():
                trace_fail(job.trace_id, job.reason)
    cancelled = _cancelled_end()
    settled = _runs_settle()
    unread = _traces_queue()
    if jobs_waiting() or OptimizerJob.objects.filter(jobs_lost(timezone.now())).exists():
        enqueue(OPTIMIZER_TASK)
    return {"given_up": len(given_up), "cancelled": cancelled, "settled": settled, "queued": unread}


def _cancelled_end() -> int:
    """Jobs of cancelled runs that nobody carries out (any more)."""
    free = Q(state=JobState.QUEUED.value) | jobs_lost(timezone.now())
    jobs = OptimizerJob.objects.filter(free, run__is_cancel_asked=True, run__state__in=OPEN_RUNS)
    keys = list(jobs.values_list("pk", flat=True)[:_AT_ONCE])
    ended = OptimizerJob.objects.filter(free, pk__in=keys)
    return int(ended.update(state=JobState.CANCELLED.value, holder="", ended_at=timezone.now()))


def _runs_settle() -> int:
    """Runs whose last job ended while nobody was left to say so."""
    runs = OptimizerRun.objects.filter(state__in=OPEN_RUNS).exclude(jobs__state__in=OPEN_JOBS)
    return sum(run_settle(run_id) for run_id in list(runs.values_list("pk", flat=True)[:_AT_ONCE]))


def _traces_queue() -> int:
    """Traces that are to be read and have no job for it: none should be, but one would wait forever."""
    waiting = [TraceState.RECEIVED.value, TraceState.READING.value]
    without = OptimizerTrace.objects.filter(state__in=waiting).exclude(jobs__state__in=OPEN_JOBS)
    queued = 0
    for trace_id in list(without.values_list("pk", flat=True)[:_AT_ONCE]):
        with transaction.atomic():
            trace = OptimizerTrace.objects.select_for_update().filter(pk=trace_id, state__in=waiting).first()
            if trace is not None and not trace.jobs.filter(state__in=OPEN_JOBS).exists():
                reading_queue(trace)
                queued += 1
    return queued


def optimizer_keep() -> dict[str, int]:
    """What may wait: old runs are forgotten, files that belong to no trace go."""
    return {
        "forgotten": runs_forget(kept=settings.KVCM_OPTIMIZER_RUNS_KEPT),
        "swept": folders_sweep(now=time.time()),
    }


def folders_sweep(*, now: float) -> int:
    """Remove folders without a trace in which nothing happened for SWEPT_AFTER_SECONDS."""
    root = traces_folder()
    if not root.is_dir():
        return 0
    known = set(OptimizerTrace.objects.values_list("folder", flat=True))
    swept = 0
    for folder in root.iterdir():
        if folder.name in known or not folder.is_dir():
            continue
        try:
            newest = max([folder.stat().st_mtime, *(path.stat().st_mtime for path in folder.iterdir())])
        except OSError:
            continue
        if now - newest > SWEPT_AFTER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
            log.info("files of no trace were removed", folder=folder.name)
            swept += 1
    return swept
