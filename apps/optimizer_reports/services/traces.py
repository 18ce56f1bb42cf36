"""What people do with traces: add one, have one generated, name it, read it anew, delete it."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.common.queue import OPTIMIZER_TASK, enqueue
from apps.optimizer_reports.choices import OPEN_JOBS, OPEN_RUNS, ReportSource, TraceSource, TraceState
from apps.optimizer_reports.folders import folder_name, source_file, trace_folder
from apps.optimizer_reports.models import OptimizerTrace, OptimizerTraceGroup
from apps.optimizer_reports.selectors.traces import trace_get, traces_bytes
from apps.optimizer_reports.services.reading import reading_queue
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.sizes import sized
from kvcm_platform.core.validation.values import text
from kvcm_platform.optimizer.analysis.formats import format_check
from kvcm_platform.optimizer.trace import MAX_BLOCK_BYTES, MAX_BLOCK_TOKENS

NAME_AT_MOST = 128
MOST_TRACES = 500
MOST_UNREAD = 20
"""Traces that wait to be read, or are."""
MOST_GENERATED_REQUESTS = 4_500_000
"""Some 100 M block accesses."""
MOST_GENERATED_INSTANCES = 64
MOST_BAD_LINES = 1_000_000


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A complete source file in its folder. Whoever made it removes it where no trace comes of it."""

    folder: str
    file_name: str
    bytes: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class TraceWish:
    """How a source is to be read; 0 and "" = as the trace says, or is detected."""

    name: str = ""
    note: str = ""
    format: str = ""
    block_tokens: int = 0
    block_bytes: int = 0
    one_namespace: bool = False
    max_bad_lines: int = 100
    as_turns: bool | None = None
    """Reads and writes of an event log become turns, which curves need; None: those of captures only."""

    def options(self) -> dict[str, Any]:
        names = ("block_tokens", "block_bytes", "one_namespace", "max_bad_lines", "as_turns")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class GenerateWish:
    """A generated trace: OPTIMIZER.md describes its shape."""

    name: str = ""
    note: str = ""
    requests: int = 50_000
    seed: int = 0
    instances: int = 1
    block_bytes: int = 0


def wish_check(wish: TraceWish) -> None:
    """Raises INVALID_ARGUMENT."""
    text("name", wish.name, is_required=False, at_most=NAME_AT_MOST)
    if wish.format:
        format_check(wish.format)
    for name, value, most in (
        ("block_tokens", wish.block_tokens, MAX_BLOCK_TOKENS),
        ("block_bytes", wish.block_bytes, MAX_BLOCK_BYTES),
        ("max_bad_lines", wish.max_bad_lines, MOST_BAD_LINES),
    ):
        if not 0 <= value <= most:
            raise invalid(name, f"must be within 0..{most}")


def room_check(*, more_bytes: int = 0) -> None:
    """Raises CAPACITY where no further trace fits, or too many wait to be read."""
    limit = settings.KVCM_TRACES_BYTES
    if OptimizerTrace.objects.count() >= MOST_TRACES:
        raise DomainError(Code.CAPACITY, f"there are {MOST_TRACES} traces already: delete some")
    if traces_bytes() + more_bytes > limit:
        raise DomainError(
            Code.CAPACITY, f"traces may have {sized(limit)} together (KVCM_TRACES_GB): delete some"
        )
    waiting = OptimizerTrace.objects.filter(state__in=[TraceState.RECEIVED.value, TraceState.READING.value])
    if waiting.count() >= MOST_UNREAD:
        raise DomainError(Code.TOO_MANY, f"{MOST_UNREAD} traces wait to be read already")


def trace_add(*, acting: Actor, received: ReceivedFile, wish: TraceWish) -> OptimizerTrace:
    """Put an uploaded source on record, and have it read.

    Raises INVALID_ARGUMENT, CAPACITY, TOO_MANY; the file is then still the caller's.
    """
    acting.require(Role.OPERATOR)
    wish_check(wish)
    room_check(more_bytes=received.bytes)
    if not received.bytes:
        raise invalid("file", "is empty")
    row = OptimizerTrace(
        name=wish.name or received.file_name[:NAME_AT_MOST] or "trace",
        note=wish.note,
        source=TraceSource.UPLOAD.value,
        folder=received.folder,
        format_wanted=wish.format,
        options=wish.options(),
        file_name=received.file_name[:256],
        file_bytes=received.bytes,
        stored_bytes=received.bytes,
        sha256=received.sha256,
    )
    return trace_insert(acting=acting, row=row, groups=acting.groups, action="trace.upload")


def trace_generate(*, acting: Actor, wish: GenerateWish) -> OptimizerTrace:
    """Have a trace generated, to try things with. Raises as trace_add."""
    acting.require(Role.OPERATOR)
    for name, value, least, most in (
        ("requests", wish.requests, 1, MOST_GENERATED_REQUESTS),
        ("instances", wish.instances, 1, MOST_GENERATED_INSTANCES),
        ("seed", wish.seed, 0, (1 << 31) - 1),
        ("block_bytes", wish.block_bytes, 0, MAX_BLOCK_BYTES),
    ):
        if not least <= value <= most:
            raise invalid(name, f"must be within {least}..{most}")
    text("name", wish.name, is_required=False, at_most=NAME_AT_MOST)
    room_check()
    row = OptimizerTrace(
        name=wish.name or f"generated, {wish.requests} requests",
        note=wish.note,
        source=TraceSource.GENERATED.value,
        folder=folder_name(),
        options={name: getattr(wish, name) for name in ("requests", "seed", "instances", "block_bytes")},
    )
    return trace_insert(acting=acting, row=row, groups=acting.groups, action="trace.generate")


def trace_insert(
    *,
    acting: Actor,
    row: OptimizerTrace,
    groups: Collection[str] | None,
    action: str,
    is_complete: bool = True,
) -> OptimizerTrace:
    """Row, audit entry and, where its source `is_complete`, the job that reads it; `groups` None = all.

    Raises PERMISSION_DENIED for none: nobody could see it.
    """
    if groups is not None and not groups:
        raise DomainError(Code.PERMISSION_DENIED, f"{acting.name} may see no instance group, and so no trace")
    row.added_by, row.added_at = acting.name[:150], timezone.now()
    row.is_of_all_groups = groups is None
    row.state = (TraceState.RECEIVED if is_complete else TraceState.CAPTURING).value
    with transaction.atomic():
        row.save()
        OptimizerTraceGroup.objects.bulk_create(
            OptimizerTraceGroup(trace=row, name=name) for name in sorted(set(groups or ()))
        )
        after = {"id": row.pk, "source": row.source, "bytes": row.file_bytes, "sha256": row.sha256}
        audit_record(acting=acting, action=action, kind="trace", name=row.name, after=after)
        if is_complete:
            reading_queue(row)
            transaction.on_commit(partial(enqueue, OPTIMIZER_TASK))
    return row


@transaction.atomic
def trace_update(
    *, acting: Actor, trace_id: int, name: str | None = None, note: str | None = None
) -> OptimizerTrace:
    """Raises NOT_FOUND, INVALID_ARGUMENT."""
    acting.require(Role.OPERATOR)
    trace = _locked(acting, trace_id)
    before = {"name": trace.name, "note": trace.note}
    if name is not None:
        trace.name = text("name", name, is_required=True, at_most=NAME_AT_MOST)
    if note is not None:
        trace.note = note
    trace.save(update_fields=["name", "note"])
    after = {"name": trace.name, "note": trace.note}
    audit_record(
        acting=acting, action="trace.update", kind="trace", name=trace.name, before=before, after=after
    )
    return trace


def trace_read_again(*, acting: Actor, trace_id: int, wish: TraceWish) -> OptimizerTrace:
    """Read the source once more, otherwise; runs of before keep what they found.

    Raises NOT_FOUND, INVALID_ARGUMENT, IN_USE while it is captured, read or analysed, CONFLICT without a
    source.
    """
    acting.require(Role.OPERATOR)
    wish_check(wish)
    with transaction.atomic():
        trace = _locked(acting, trace_id)
        _require_idle(trace)
        if trace.source != TraceSource.GENERATED and not source_file(trace.folder).is_file():
            raise DomainError(Code.CONFLICT, f"the source of trace {trace.name} is not there any more")
        if trace.source != TraceSource.GENERATED:
            trace.format_wanted, trace.options = wish.format, wish.options()
        trace.state, trace.progress, trace.reason = TraceState.RECEIVED.value, 0.0, ""
        trace.save()
        reading_queue(trace)
        after = {"id": trace.pk, "format": wish.format, **trace.options}
        audit_record(acting=acting, action="trace.read", kind="trace", name=trace.name, after=after)
        transaction.on_commit(partial(enqueue, OPTIMIZER_TASK))
    return trace


def trace_remove(*, acting: Actor, trace_id: int) -> None:
    """Delete a trace and its files; runs of it stay. One that is being read is read no further.

    Raises NOT_FOUND, IN_USE while it is captured, a run of it is not over, or a schedule makes reports of it.
    """
    acting.require(Role.OPERATOR)
    with transaction.atomic():
        trace = _locked(acting, trace_id)
        _require_unused(trace)
        # Else each of its reports would fail from then on.
        if trace.report_schedules.filter(source=ReportSource.TRACE.value).exists():
            raise DomainError(
                Code.IN_USE, f"a schedule makes reports of trace {trace.name}: change that first"
            )
        after = {"id": trace.pk, "bytes": trace.stored_bytes}
        audit_record(acting=acting, action="trace.delete", kind="trace", name=trace.name, before=after)
        folder = trace_folder(trace.folder)
        trace.delete()
        transaction.on_commit(partial(shutil.rmtree, folder, ignore_errors=True))


def _locked(acting: Actor, trace_id: int) -> OptimizerTrace:
    trace_get(acting=acting, trace_id=trace_id)
    trace = OptimizerTrace.objects.select_for_update().filter(pk=trace_id).first()
    if trace is None:
        raise DomainError(Code.NOT_FOUND, f"trace {trace_id} does not exist", field="trace")
    return trace


def _require_unused(trace: OptimizerTrace) -> None:
    if trace.state == TraceState.CAPTURING:
        raise DomainError(Code.IN_USE, f"trace {trace.name} is being captured: end that first")
    if trace.runs.filter(state__in=OPEN_RUNS).exists():
        raise DomainError(Code.IN_USE, f"a run of trace {trace.name} is not over")


def _require_idle(trace: OptimizerTrace) -> None:
    _require_unused(trace)
    if trace.jobs.filter(state__in=OPEN_JOBS).exists():
        raise DomainError(Code.IN_USE, f"trace {trace.name} is being read")
