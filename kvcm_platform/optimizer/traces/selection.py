"""Parts of a trace: by instance, by type of request, by time."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.optimizer.trace import Trace

from ..compiled import compiled_allocating
from .errors import TraceReadError
from .store import PATH_COLUMNS, REQUEST_COLUMNS

_CHUNK_REQUESTS = 1 << 16


def select(
    trace: Trace,
    *,
    instances: Collection[str] | None = None,
    types: Collection[str] | None = None,
    begin_us: int | None = None,
    end_us: int | None = None,
) -> Trace:
    """The requests of these instances and types with begin_us <= at_us < end_us; None: all.

    Times, instances, types and sessions keep their numbers; paths get new ones, as they first appear in
    the part. The arrays are in memory (only those of what is selected) and read-only, as those of an opened
    trace. What is all of the trace is the trace itself. Raises TraceReadError bad_option for a name that the
    trace does not have and for a selection without requests.
    """
    chosen = np.ones(trace.requests, dtype=np.bool_)
    names = [instance.instance_id for instance in trace.header.instances]
    if instances is not None:
        chosen &= np.isin(trace.instance, _numbers(instances, names, "instances"))
    if types is not None:
        chosen &= np.isin(trace.type, _numbers(types, list(trace.header.types), "types"))
    first, end = 0, trace.requests
    if begin_us is not None:
        first = int(np.searchsorted(trace.at_us, begin_us, side="left"))
    if end_us is not None:
        end = int(np.searchsorted(trace.at_us, end_us, side="left"))
    chosen[:first] = False
    chosen[end:] = False
    requests = np.flatnonzero(chosen)
    if len(requests) == trace.requests:
        return trace
    if not len(requests):
        raise TraceReadError("bad_option", "no request of the trace is in the selection", field="selection")
    return _part(trace, requests)


def part_of(
    trace: Trace,
    *,
    instances: Collection[str] | None = None,
    types: Collection[str] | None = None,
    begin_seconds: float | None = None,
    end_seconds: float | None = None,
) -> Trace:
    """As `select`, with nothing for all, and times in seconds since the first request."""
    first = int(trace.at_us[0]) if trace.requests else 0
    begin, end = (
        None if seconds is None else first + round(seconds * 1e6) for seconds in (begin_seconds, end_seconds)
    )
    if not (instances or types or begin is not None or end is not None):
        return trace
    return select(trace, instances=instances or None, types=types or None, begin_us=begin, end_us=end)


def _numbers(wanted: Collection[str], known: list[str], field: str) -> list[int]:
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise TraceReadError("bad_option", f"the trace has no {field} {', '.join(unknown)}", field=field)
    return [known.index(name) for name in wanted]


def _part(trace: Trace, requests: NDArray[np.int64]) -> Trace:
    lengths = np.asarray(trace.offset[requests + 1] - trace.offset[requests])
    offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    path = np.empty(int(offset[-1]), dtype=np.int32)
    renumbered = np.full(trace.distinct_blocks, -1, dtype=np.int32)
    kept = np.empty(trace.distinct_blocks, dtype=np.int32)
    count = 0
    for begin in range(0, len(requests), _CHUNK_REQUESTS):
        some = requests[begin : begin + _CHUNK_REQUESTS]
        low, high = int(trace.offset[some[0]]), int(trace.offset[some[-1] + 1])
        starts = np.asarray(trace.offset[some]) - low
        local = offset[begin : begin + len(some) + 1]
        count = _renumber(np.array(trace.path[low:high]), starts, local, path, renumbered, kept, count)
    paths = kept[:count]
    columns = {name: np.asarray(getattr(trace, name))[requests] for name in REQUEST_COLUMNS}
    columns |= {name: np.asarray(getattr(trace, name))[paths] for name in PATH_COLUMNS}
    has_parent = columns["parent"] >= 0
    columns["parent"][has_parent] = renumbered[columns["parent"][has_parent]]
    columns |= {"offset": offset, "path": path}
    for column in columns.values():
        column.flags.writeable = False
    return Trace(header=trace.header, **columns)


@compiled_allocating
def _renumber(paths, starts, offset, path, renumbered, kept, count):  # type: ignore[no-untyped-def]
    """Request r's blocks, from paths[starts[r]], to path[offset[r]:offset[r + 1]] with new numbers."""
    for r in range(len(starts)):
        begin = offset[r]
        for i in range(begin, offset[r + 1]):
            old = paths[starts[r] + i - begin]
            if renumbered[old] < 0:
                renumbered[old] = count
                kept[count] = old
                count += 1
            path[i] = renumbered[old]
    return count
