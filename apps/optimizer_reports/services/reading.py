"""Traces become columns: the order to read one, and what comes of it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.audit.services import event_record
from apps.common.conditions import Severity
from apps.common.storable import storable
from apps.optimizer_reports.choices import JobKind, JobState, TraceSource, TraceState
from apps.optimizer_reports.folders import (
    bytes_below,
    columns_folder,
    optimizer_folder,
    parquet_file,
    source_file,
    trace_folder,
)
from apps.optimizer_reports.models import OptimizerJob, OptimizerTrace, OptimizerTraceGroup
from apps.optimizer_reports.selectors.traces import traces_bytes
from apps.optimizer_reports.services.leases import Lease, job_end
from kvcm_platform.optimizer.analysis.order import Order, unpacked

log = structlog.get_logger(__name__)

_FIGURES = (
    *("format", "requests", "blocks", "distinct_blocks", "input_tokens", "output_tokens", "span_us"),
    *("bad_line_count", "bad_lines", "instances", "types", "details"),
)
_LATEST_US = 253_402_300_799_000_000
"""The end of the year 9999; a trace may state anything."""


def read_order(trace: OptimizerTrace, *, memory_bytes: int, cache_folder: str) -> Order:
    """What the job's process is asked for."""
    trace_folder(trace.folder).mkdir(parents=True, exist_ok=True)
    target = {
        "source": str(source_file(trace.folder)),
        "columns": str(columns_folder(trace.folder)),
        "parquet": str(parquet_file(trace.folder)),
        "name": trace.name,
        "format": trace.format_wanted,
        "options": trace.options,
        "room_bytes": _room_bytes(trace),
    }
    do = "generate" if trace.source == TraceSource.GENERATED else "read"
    return Order(do, target, memory_bytes, cache_folder)


def _room_bytes(trace: OptimizerTrace) -> int:
    """How far a source may unpack: columns take as much as its text, twice while they are made.

    The source itself may always be read, once it is here: it was let in.
    """
    left = settings.KVCM_TRACES_BYTES - traces_bytes() + trace.stored_bytes
    free = shutil.disk_usage(optimizer_folder()).free // 2
    return max(trace.file_bytes, min(left, free))


def reading_queue(trace: OptimizerTrace) -> OptimizerJob:
    """In the transaction that makes the trace readable."""
    seconds = 2.0 + trace.file_bytes / 20e6
    return OptimizerJob.objects.create(
        kind=JobKind.READ.value,
        trace=trace,
        title=f"read {trace.name}"[:200],
        work=trace.file_bytes,
        estimate_seconds=round(seconds, 3),
    )


def reading_finish(lease: Lease, content: bytes, *, busy_seconds: float, peak_bytes: int) -> bool:
    """Put what was found in a trace on record; False where the job is another one's by now."""
    found = storable(unpacked(content))
    folder = lease.job.trace.folder
    stored = bytes_below(trace_folder(folder))
    with transaction.atomic():
        if not job_end(lease, JobState.DONE, busy_seconds=busy_seconds, peak_bytes=peak_bytes):
            return False
        trace = OptimizerTrace.objects.select_for_update().get(pk=lease.job.trace_id)
        for name in _FIGURES:
            setattr(trace, name, found[name])
        trace.starts_at = _moment(found["start_us"])
        trace.sha256 = trace.sha256 or found.get("sha256", "")
        trace.file_bytes = trace.file_bytes or found.get("source_bytes", 0)
        trace.stored_bytes = stored
        trace.state, trace.progress, trace.reason = TraceState.READY.value, 1.0, ""
        trace.ready_at = timezone.now()
        trace.save()
    return True


def reading_fail(lease: Lease, reason: str) -> None:
    """Unless the job is another one's by now."""
    with transaction.atomic():
        if job_end(lease, JobState.FAILED, reason=reason):
            trace_fail(lease.job.trace_id, reason)


def trace_fail(trace_id: int, reason: str) -> None:
    """In a transaction: the trace cannot be used, and everybody who may see it is told."""
    trace = OptimizerTrace.objects.select_for_update().get(pk=trace_id)
    trace.state, trace.reason = TraceState.FAILED.value, storable(reason)[:2000]
    trace.save(update_fields=["state", "reason"])
    groups = OptimizerTraceGroup.objects.filter(trace=trace).values_list("name", flat=True)
    event_record(
        at=timezone.now(),
        kind="trace.failed",
        subject_kind="trace",
        subject=trace.name,
        message=f"Trace {trace.name} cannot be read: {trace.reason}",
        severity=Severity.WARNING,
        groups=None if trace.is_of_all_groups else list(groups),
    )


def _moment(start_us: int) -> datetime | None:
    if not 0 < start_us <= _LATEST_US:
        return None
    return datetime.fromtimestamp(start_us / 1e6, UTC)


def facts_of(trace: OptimizerTrace) -> dict[str, Any]:
    """What a run keeps of its trace."""
    return {
        name: getattr(trace, name)
        for name in (
            *("format", "requests", "blocks", "distinct_blocks", "input_tokens", "output_tokens"),
            *("span_us", "instances", "types", "details"),
        )
    }
