"""What is in a trace, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvcm_platform.optimizer.trace import BadLine, Event, Trace, blocks_by_instance

from .header import bad_lines_to_json


@dataclass(frozen=True, slots=True)
class PartSummary:
    """Of one instance or type of request."""

    name: str
    requests: int
    blocks: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """`blocks` are accesses, `distinct_blocks` paths; `longest` the blocks of the longest request."""

    name: str
    format: str
    requests: int
    blocks: int
    distinct_blocks: int
    distinct_bytes: int
    """0 where the trace does not know the size of blocks."""
    start_us: int
    span_us: int
    input_tokens: int
    output_tokens: int
    sessions: int
    longest: int
    events: dict[str, int]
    """Requests by kind: turn, read, write."""
    instances: tuple[PartSummary, ...]
    types: tuple[PartSummary, ...]
    block_tokens: tuple[int, ...]
    """Of each instance."""
    block_bytes: tuple[int, ...]
    has_partial_blocks: bool
    bad_line_count: int
    bad_lines: tuple[BadLine, ...]
    notes: tuple[str, ...]


def summary(trace: Trace) -> TraceSummary:
    """One pass over the columns of requests; the column of accesses is not read."""
    header = trace.header
    lengths = np.diff(trace.offset)
    instances = [instance.instance_id for instance in header.instances]
    bytes_of = np.array([instance.block_bytes for instance in header.instances], dtype=np.int64)
    paths = blocks_by_instance(trace)
    events = np.bincount(trace.event, minlength=len(Event))
    return TraceSummary(
        name=header.name,
        format=header.format,
        requests=trace.requests,
        blocks=trace.blocks,
        distinct_blocks=trace.distinct_blocks,
        distinct_bytes=int(paths @ bytes_of),
        start_us=header.start_us,
        span_us=trace.span_us,
        input_tokens=int(np.sum(trace.input_tokens, dtype=np.int64)),
        output_tokens=int(np.sum(trace.output_tokens, dtype=np.int64)),
        sessions=len(np.unique(trace.session[np.asarray(trace.session) >= 0])),
        longest=int(lengths.max()) if len(lengths) else 0,
        events={event.name.lower(): int(events[event]) for event in Event},
        instances=_parts(trace, trace.instance, instances, lengths),
        types=_parts(trace, trace.type, list(header.types), lengths),
        block_tokens=tuple(instance.block_tokens for instance in header.instances),
        block_bytes=tuple(instance.block_bytes for instance in header.instances),
        has_partial_blocks=header.has_partial_blocks,
        bad_line_count=header.bad_line_count,
        bad_lines=header.bad_lines,
        notes=header.notes,
    )


def summary_to_json(told: TraceSummary) -> dict[str, Any]:
    """JSON-ready, whole."""
    data = {name: getattr(told, name) for name in TraceSummary.__dataclass_fields__}
    for name in ("instances", "types"):
        data[name] = [
            {field: getattr(part, field) for field in PartSummary.__dataclass_fields__} for part in data[name]
        ]
    data["bad_lines"] = bad_lines_to_json(told.bad_lines)
    for name in ("block_tokens", "block_bytes", "notes"):
        data[name] = list(data[name])
    return data


def _parts(trace: Trace, numbers: Any, names: list[str], lengths: Any) -> tuple[PartSummary, ...]:
    def sums(weights: Any) -> Any:
        # Whole up to 2^53, which is more than a trace holds.
        return np.bincount(numbers, weights=weights, minlength=len(names)).astype(np.int64)

    requests = np.bincount(numbers, minlength=len(names))
    blocks, tokens = sums(lengths), sums(trace.input_tokens)
    return tuple(
        PartSummary(name, int(requests[k]), int(blocks[k]), int(tokens[k])) for k, name in enumerate(names)
    )
