"""The record of a capture: whoever writes live traffic into a trace's source keeps it here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from django.db import transaction

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.common.queue import OPTIMIZER_TASK, enqueue
from apps.optimizer_reports.choices import TraceSource, TraceState
from apps.optimizer_reports.folders import folder_name, kept_or_refused, source_file, trace_folder
from apps.optimizer_reports.models import OptimizerTrace
from apps.optimizer_reports.services.reading import reading_queue, trace_fail
from apps.optimizer_reports.services.traces import TraceWish, room_check, trace_insert, wish_check

CAPTURE_FORMAT = "capture"


def capture_row_begin(
    *,
    acting: Actor,
    name: str,
    note: str = "",
    groups: Collection[str],
    capture: Mapping[str, Any],
) -> OptimizerTrace:
    """A trace in state `capturing` with an empty folder: its source is to be written at `capture_file`.

    `capture` = instances, seconds and whatever else explains it; `groups` = those of the instances. Raises
    CAPACITY where no further trace fits, IO_ERROR where the disk takes no more.
    """
    acting.require(Role.OPERATOR)
    wish_check(TraceWish(name=name, note=note))
    room_check()
    row = OptimizerTrace(
        name=name,
        note=note,
        source=TraceSource.CAPTURE.value,
        folder=folder_name(),
        format_wanted=CAPTURE_FORMAT,
        options=TraceWish().options(),
        file_name=f"{name}.jsonl.zst"[:256],
        capture=dict(capture),
    )
    with kept_or_refused():
        trace_folder(row.folder).mkdir(parents=True)
    return trace_insert(acting=acting, row=row, groups=groups, action="trace.capture", is_complete=False)


def capture_file(trace: OptimizerTrace) -> Path:
    """Where the source of a captured trace belongs."""
    return source_file(trace.folder)


def capture_row_note(
    *, trace_id: int, figures: Mapping[str, Any], source_bytes: int, progress: float
) -> bool:
    """Keep the figures of a capture that goes on; False where it is over, or gone."""
    with transaction.atomic():
        trace = _capturing(trace_id)
        if trace is None:
            return False
        trace.capture = {**(trace.capture or {}), **figures}
        trace.file_bytes = trace.stored_bytes = source_bytes
        trace.progress = min(1.0, max(0.0, progress))
        trace.save(update_fields=["capture", "file_bytes", "stored_bytes", "progress"])
    return True


def capture_row_end(
    *, trace_id: int, figures: Mapping[str, Any], source_bytes: int, failure: str = ""
) -> bool:
    """The source is complete and is read now, or of no use, as `failure` says; False where it was over."""
    with transaction.atomic():
        trace = _capturing(trace_id)
        if trace is None:
            return False
        trace.capture = {**(trace.capture or {}), **figures}
        trace.file_bytes = trace.stored_bytes = source_bytes
        trace.progress, trace.state = 0.0, TraceState.RECEIVED.value
        trace.save()
        acting = Actor.system("capture")
        audit_record(
            acting=acting, action="trace.captured", kind="trace", name=trace.name, after=dict(figures)
        )
        if failure:
            trace_fail(trace.pk, failure)
        else:
            reading_queue(trace)
            transaction.on_commit(partial(enqueue, OPTIMIZER_TASK))
    return True


def _capturing(trace_id: int) -> OptimizerTrace | None:
    rows = OptimizerTrace.objects.select_for_update()
    found: OptimizerTrace | None = rows.filter(pk=trace_id, state=TraceState.CAPTURING.value).first()
    return found
