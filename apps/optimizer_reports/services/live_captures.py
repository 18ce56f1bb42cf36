"""Captures of live traffic: begun and ended on request, written by rounds of the workers.

The row of the trace says what is captured and how far its file goes; the switch in Redis follows from it, and
is set anew by every round. A round holds the file's lock, so that one writer at a time appends: what
it appended and did not note is cut off by the next one. So a capture goes on where it was after any crash,
and ends at its time whatever happens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import redis
import structlog
from django.db import transaction

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.instances.selectors import instance_get
from apps.optimizer_reports.choices import TraceState
from apps.optimizer_reports.models import OptimizerTrace
from apps.optimizer_reports.selectors.traces import trace_get
from apps.optimizer_reports.services.captures import (
    capture_file,
    capture_row_begin,
    capture_row_end,
    capture_row_note,
)
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.index import keyspace, request_switches
from kvcm_platform.index.capture_files import (
    BusyFile,
    CapturedInstance,
    CaptureProgress,
    DamagedFile,
    append,
    header_line,
    held,
    take_events,
)
from kvcm_platform.index.request_switches import CaptureSwitch

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 4
MOST_INSTANCES = 200
MOST_SECONDS = 86_400
LEAST_BYTES, MOST_BYTES = 1 << 20, 16 << 30
USUAL_BYTES = 1 << 30
"""Of the file, packed: lookups and writes of about 150 million blocks."""
SETTLE_MS = 3000
"""After its end, until every process has told what it had noted."""
GIVE_UP_MS = 600_000
"""After its end, where the file cannot be written: the capture ends with what it has."""
ROUND_SECONDS = 4.0


def capture_begin(
    *,
    acting: Actor,
    client: redis.Redis,
    instance_ids: Sequence[str],
    seconds: int,
    name: str = "",
    note: str = "",
    max_bytes: int = USUAL_BYTES,
    now_ms: int | None = None,
) -> OptimizerTrace:
    """Captures the calls of some instances for a while, or until the file has `max_bytes`.

    The trace is read by itself when that is over. Raises PERMISSION_DENIED, INSTANCE_NOT_EXIST,
    INVALID_ARGUMENT, and CAPACITY past MOST_AT_ONCE captures or where no further trace fits.
    """
    acting.require(Role.OPERATOR)
    instances = _instances(acting, instance_ids)
    if not 1 <= seconds <= MOST_SECONDS:
        raise invalid("seconds", f"must be within 1..{MOST_SECONDS}")
    if not LEAST_BYTES <= max_bytes <= MOST_BYTES:
        raise invalid("max_bytes", f"must be within {LEAST_BYTES}..{MOST_BYTES}")
    if _running().count() >= MOST_AT_ONCE:
        raise DomainError(Code.CAPACITY, f"{MOST_AT_ONCE} captures are under way, the most at a time")
    begin_ms = round(time.time() * 1000) if now_ms is None else now_ms
    capture = {
        "instances": [asdict(one) for one in instances],
        "seconds": seconds,
        "max_bytes": max_bytes,
        "begin_ms": begin_ms,
        "until_ms": begin_ms + seconds * 1000,
        "events": 0,
        "lost_events": 0,
        "end": "",
    }
    shown = ", ".join(one.instance_id for one in instances)
    trace = capture_row_begin(
        acting=acting,
        name=name or f"capture of {shown}"[:128],
        note=note,
        groups={one.group for one in instances},
        capture=capture,
    )
    try:
        _switch(client, trace)
    except redis.RedisError as error:  # the next round sets it
        log.warning("a capture begins late", trace=trace.name, reason=str(error))
    return trace


def _instances(acting: Actor, instance_ids: Sequence[str]) -> list[CapturedInstance]:
    wanted = list(dict.fromkeys(instance_ids))
    if not 1 <= len(wanted) <= MOST_INSTANCES:
        raise invalid("instances", f"name 1 to {MOST_INSTANCES} instances")
    found = []
    for instance_id in wanted:
        entry = instance_get(acting=acting, instance_id=instance_id).entry()
        if entry.has_values:
            raise invalid("instances", f"{instance_id} holds keys and values; it has no blocks")
        block_bytes = sum(spec.size for spec in entry.location_spec_infos)
        found.append(CapturedInstance(instance_id, entry.block_size, block_bytes, entry.group))
    return found


def capture_end(*, acting: Actor, trace_id: int, now_ms: int | None = None) -> OptimizerTrace:
    """Ends a capture before its time; what was captured is read. Raises NOT_FOUND, and CONFLICT once over."""
    acting.require(Role.OPERATOR)
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    with transaction.atomic():
        trace_get(acting=acting, trace_id=trace_id)
        trace = _running().select_for_update().filter(pk=trace_id).first()
        if trace is None:
            raise DomainError(Code.CONFLICT, "the trace is not being captured", field="trace")
        capture = trace.capture or {}
        if now_ms < capture["until_ms"]:
            trace.capture = {**capture, "until_ms": now_ms, "end": "request"}
            trace.save(update_fields=["capture"])
            audit_record(acting=acting, action="trace.end_capture", kind="trace", name=trace.name)
    return trace


def captures_follow(*, client: redis.Redis, now_ms: int | None = None) -> dict[str, int]:
    """One round over all captures; how many there are, and the events written. Raises RedisError."""
    events = 0
    traces = list(_running().order_by("id")[: 2 * MOST_AT_ONCE])
    for trace in traces:
        now = round(time.time() * 1000) if now_ms is None else now_ms
        try:
            with held(capture_file(trace)) as descriptor:
                trace.refresh_from_db()
                if trace.state == TraceState.CAPTURING:
                    events += _carry_on(client, trace, descriptor, now)
        except BusyFile:
            continue  # another worker is at it
        except DamagedFile as error:
            _end(client, trace, failure=f"the file of the capture was damaged: {error}")
        except OSError as error:
            log.warning("a capture cannot be written", trace=trace.name, reason=str(error))
            if now > _settings(trace)["until_ms"] + GIVE_UP_MS or not capture_file(trace).parent.is_dir():
                _end(client, trace, failure=f"the file of the capture cannot be written: {error}")
        except OptimizerTrace.DoesNotExist:
            continue
    return {"captures": len(traces), "events": events}


def _running() -> Any:
    return OptimizerTrace.objects.filter(state=TraceState.CAPTURING.value)


def _settings(trace: OptimizerTrace) -> dict[str, Any]:
    return {"until_ms": 0, "begin_ms": 0, "max_bytes": USUAL_BYTES, "instances": [], **(trace.capture or {})}


def _switch(client: redis.Redis, trace: OptimizerTrace) -> None:
    settings = _settings(trace)
    names = frozenset(one["instance_id"] for one in settings["instances"])
    request_switches.set_capture(client, trace.folder, CaptureSwitch(names, settings["until_ms"]))


def _carry_on(client: redis.Redis, trace: OptimizerTrace, descriptor: int, now_ms: int) -> int:
    """Writes what came since the last round, and ends the capture when it is over; the events written."""
    settings, size = _settings(trace), trace.file_bytes
    progress = CaptureProgress(**settings.get("state", {}))
    before = progress.events
    if now_ms < settings["until_ms"]:
        _switch(client, trace)
    lines = [] if size else [header_line([CapturedInstance(**one) for one in settings["instances"]])]
    deadline, is_read = time.monotonic() + ROUND_SECONDS, False
    while size < settings["max_bytes"] and time.monotonic() < deadline and not is_read:
        progress, more = take_events(client, trace.folder, progress)
        is_read = not more
        lines += more
        if lines:
            size = append(descriptor, size, lines)
            lines = []
            if not capture_row_note(
                trace_id=trace.pk,
                figures=_figures(progress),
                source_bytes=size,
                progress=_share(settings, size, now_ms),
            ):
                return progress.events - before
    is_full = size >= settings["max_bytes"]
    if is_full or (is_read and now_ms >= settings["until_ms"] + SETTLE_MS):
        trace.refresh_from_db()
        why = "size" if is_full else (_settings(trace).get("end") or "time")
        failure = "" if progress.events else "no call of these instances came"
        _end(client, trace, figures={**_figures(progress), "end": why}, failure=failure)
    return progress.events - before


def _figures(progress: CaptureProgress) -> dict[str, Any]:
    """`state` is what the next round begins with."""
    return {
        "events": progress.events,
        "lost_events": progress.lost_events,
        "state": {**asdict(progress), "next_of": dict(progress.next_of)},
    }


def _share(settings: dict[str, Any], size: int, now_ms: int) -> float:
    """Of its time or of its size, whichever is nearer to its end."""
    span = max(1, settings["until_ms"] - settings["begin_ms"])
    return max((now_ms - settings["begin_ms"]) / span, size / settings["max_bytes"])


def _end(
    client: redis.Redis, trace: OptimizerTrace, *, figures: dict[str, Any] | None = None, failure: str = ""
) -> None:
    """The stream goes last: until then the end may be repeated."""
    request_switches.drop_capture(client, trace.folder)
    told = {name: value for name, value in (figures or {}).items() if name != "state"}
    capture_row_end(trace_id=trace.pk, figures=told, source_bytes=trace.file_bytes, failure=failure)
    client.delete(keyspace.captured_requests(trace.folder))
