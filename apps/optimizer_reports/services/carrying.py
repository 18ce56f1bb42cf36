"""Carries jobs out: a process for each, its progress on record meanwhile, its findings at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction

from apps.common.queue import OPTIMIZER_TASK, enqueue
from apps.optimizer_reports.choices import JobKind, JobState
from apps.optimizer_reports.folders import columns_folder, optimizer_folder
from apps.optimizer_reports.models import OptimizerJob, OptimizerResult
from apps.optimizer_reports.selectors.runs import jobs_waiting
from apps.optimizer_reports.services.leases import Lease, job_end, job_take, lease_beat
from apps.optimizer_reports.services.processes import JobProcess
from apps.optimizer_reports.services.reading import read_order, reading_fail, reading_finish
from apps.optimizer_reports.services.run_ends import run_settle
from kvcm_platform.optimizer.analysis.order import Order

log = structlog.get_logger(__name__)

BEAT_SECONDS = 0.5
MOST_SECONDS = 6 * 3600.0
"""A job that takes longer ends."""
ROUND_SECONDS = 300.0
"""After so long a task hands on what is left: none of them stays unanswered at the broker for long."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one task did."""

    done: int = 0
    failed: int = 0


def jobs_work(*, memory_bytes: int, round_seconds: float = ROUND_SECONDS) -> Work:
    """Carry out jobs until none waits, or `round_seconds` are over; then the next task goes on."""
    begun = time.monotonic()
    done = failed = 0
    while (lease := job_take()) is not None:
        if jobs_waiting():
            # Somebody else may have room.
            enqueue(OPTIMIZER_TASK)
        if job_carry_out(lease, memory_bytes=memory_bytes):
            done += 1
        else:
            failed += 1
        if time.monotonic() - begun > round_seconds:
            if jobs_waiting():
                enqueue(OPTIMIZER_TASK)
            break
    return Work(done, failed)


def job_carry_out(
    lease: Lease,
    *,
    memory_bytes: int,
    beat_seconds: float = BEAT_SECONDS,
    most_seconds: float = MOST_SECONDS,
) -> bool:
    """Whether it was done. What came in the way is on record, unless the job is another one's by now."""
    begun = time.monotonic()
    try:
        order = _order(lease, memory_bytes)
        process = JobProcess(order)
    except OSError as error:
        _fail(lease, f"its process cannot be started: {error}")
        return False
    try:
        is_held = _wait(lease, process, beat_seconds, most_seconds)
    except BaseException:
        process.kill()
        raise
    busy = time.monotonic() - begun
    if not is_held:
        _stop(lease)
        return False
    if process.result is None:
        _fail(lease, process.failure, busy_seconds=busy)
        return False
    return _finish(lease, process, busy)


def _wait(lease: Lease, process: JobProcess, beat_seconds: float, most_seconds: float) -> bool:
    """Whether the job is still the caller's at the end of its process."""
    deadline = time.monotonic() + most_seconds
    while not process.wait(beat_seconds):
        if not _beat(lease, process.progress):
            process.kill()
            return False
        if time.monotonic() > deadline:
            process.kill()
            process.failure = f"it took longer than {most_seconds / 3600:g} hours"
            break
    return True


def _beat(lease: Lease, progress: float) -> bool:
    """As lease_beat; while the database is away the work goes on, and its lease is looked at afterwards."""
    try:
        return lease_beat(lease, progress)
    except (OperationalError, InterfaceError) as error:
        log.warning("a job of the optimizer cannot be noted", job=lease.job.pk, error=str(error))
        connection.close()
        return True


def _order(lease: Lease, memory_bytes: int) -> Order:
    job = lease.job
    cache = str(optimizer_folder() / "compiled")
    if job.kind == JobKind.READ:
        return read_order(job.trace, memory_bytes=memory_bytes, cache_folder=cache)
    run = job.run
    if run.trace is None:
        raise FileNotFoundError("the trace was deleted")
    columns: Path = columns_folder(run.trace.folder)
    arguments = {"trace": str(columns), "spec": run.spec, "plan": job.plan}
    return Order("analyse", arguments, memory_bytes, cache)


def _finish(lease: Lease, process: JobProcess, busy: float) -> bool:
    job = lease.job
    packed = process.result or b""
    if job.kind == JobKind.READ:
        return reading_finish(lease, packed, busy_seconds=busy, peak_bytes=process.peak_bytes)
    with transaction.atomic():
        is_mine = job_end(lease, JobState.DONE, busy_seconds=busy, peak_bytes=process.peak_bytes)
        if is_mine:
            OptimizerResult.objects.update_or_create(
                job=job, defaults={"content": packed, "bytes": len(packed)}
            )
            transaction.on_commit(partial(run_settle, job.run_id))
    return is_mine


def _fail(lease: Lease, reason: str, *, busy_seconds: float = 0.0) -> None:
    log.warning("a job of the optimizer failed", job=lease.job.pk, title=str(lease.job), reason=reason)
    if lease.job.kind == JobKind.READ:
        reading_fail(lease, reason)
    elif job_end(lease, JobState.FAILED, reason=reason, busy_seconds=busy_seconds):
        run_settle(lease.job.run_id)


def _stop(lease: Lease) -> None:
    """The run was cancelled, the trace deleted, or another process has the job."""
    job: OptimizerJob = lease.job
    if job.kind == JobKind.ANALYSE and job_end(lease, JobState.CANCELLED):
        run_settle(job.run_id)
