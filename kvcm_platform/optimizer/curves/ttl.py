"""The exact curve of a cache whose blocks live for a time since their last use, and what it holds then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..compiled import compiled
from ..curve import Curve, Definition, Float64, Progress, Unit
from ..trace import Int32, Int64, Trace
from . import stack
from .bins import capacities_of, edges_of, find_bin, log_linear
from .chunks import chunks, require_turns, weights_of
from .lru import curve_of_rows
from .stack import FRESH, FRESH_BYTES, TOUCHED, count_blocks

OCTAVE_BITS = 4
"""16 times of each doubling where none are given."""


def ttl_curve(
    trace: Trace, ttls_us: Sequence[int] | Int64 | None = None, *, on_progress: Progress | None = None
) -> Curve:
    """Hits by time to live, refreshed at each use: a block hits if it was used at most so long ago.

    Ancestors were used no earlier than their descendants, so the histogram of reuse times is the curve
    (OPTIMIZER.md 1). `capacities` are microseconds (None: 16 of each doubling up to the trace's span).
    `series` has `mean_resident` and `mean_resident_bytes`: blocks alive, averaged over the trace's span,
    which put a time to live on the axis of capacity.

    Raises UNSUPPORTED for a trace that reads and writes apart, INVALID_ARGUMENT for bad times.
    """
    require_turns(trace, "the TTL curve")
    weights = weights_of(trace, Unit.BLOCKS)
    every = log_linear(max(1, trace.span_us), per_octave_bits=OCTAVE_BITS)
    wanted = every if ttls_us is None else capacities_of(ttls_us, "ttls_us")
    edges = edges_of(wanted)
    last = np.full(trace.distinct_blocks, -1, dtype=np.int32)
    times = np.zeros(trace.requests, dtype=np.int64)
    left = np.zeros(trace.requests, dtype=np.int32)
    total = np.zeros((len(edges) + 2, stack.WIDTH), dtype=np.int64)
    held = np.zeros((len(edges) + 1, 4), dtype=np.float64)
    state: tuple[Any, ...] = (
        *(weights.block_tokens, weights.block_bytes, last, times, left),
        *(edges.values, edges.first, total, held),
    )
    for chunk in chunks(trace):
        arguments = (*chunk.columns, chunk.at_us, *state)
        _ttl_pass(*arguments)
        if on_progress is not None:
            on_progress(chunk.end / trace.requests)
    instance = np.asarray(trace.instance, dtype=np.int32)
    _open_tails(times, left, instance, weights.block_bytes, edges.values, edges.first, held)
    curve = curve_of_rows(trace, total, np.arange(len(wanted)), Definition("ttl"), wanted)
    # A gap counts whole where the time to live reaches over it, else for the time to live.
    below = held[:-1].cumsum(axis=0)
    above = held.sum(axis=0) - below
    span = max(1, trace.span_us)
    series = {
        "mean_resident": (below[:, 1] + above[:, 0] * wanted) / span,
        "mean_resident_bytes": (below[:, 3] + above[:, 2] * wanted) / span,
    }
    return replace(curve, series=series)


@compiled
def _hold(held: Float64, found: int, blocks: int, gap: int, size: int) -> None:
    held[found, 0] += blocks
    held[found, 1] += float(blocks) * gap
    held[found, 2] += float(blocks) * size
    held[found, 3] += float(blocks) * size * gap


@compiled
def _ttl_pass(
    first_request: int,
    instance: Int32,
    skip_n: Int32,
    read_n: Int32,
    last_tokens: Int32,
    offset: Int64,
    path: Int32,
    at_us: Int64,
    block_tokens: Int64,
    block_bytes: Int64,
    last: Int32,
    times: Int64,
    left: Int32,
    edges: Int64,
    first: Int32,
    total: Int64,
    held: Float64,
) -> None:
    """Goes on by a chunk. All blocks of a run (stack.py) have the same gap.

    State: `last` (P), `times` and `left` (all requests): when a request was, and how many blocks it was the
    last to use. Results: `total` as `stack_pass`; `held` (E + 1, 4) by bin of the gap: touched blocks, their
    gaps summed up, and both by bytes.
    """
    bins = len(edges)
    for request in range(len(instance)):
        now = first_request + request
        times[now] = at_us[request]
        start = offset[request]
        count = offset[request + 1] - start
        which = instance[request]
        skip = min(skip_n[request], count)
        lookup = min(read_n[request], count)
        tokens = block_tokens[which]
        size = block_bytes[which]
        rest = last_tokens[request]
        row = total[bins + 1]
        if lookup > skip:
            count_blocks(row, skip, lookup, lookup, tokens, rest, size)
        row[TOUCHED] += count
        begin = 0
        while begin < count:
            before = last[path[start + begin]]
            end = begin
            while end < count and last[path[start + end]] == before:
                last[path[start + end]] = now
                end += 1
            if before < 0:
                row[FRESH] += end - begin
                row[FRESH_BYTES] += (end - begin) * size
                break
            gap = at_us[request] - times[before]
            left[before] -= end - begin
            found = find_bin(gap, edges, first)
            _hold(held, found, end - begin, gap, size)
            total[found, TOUCHED] += end - begin
            asked_begin = max(begin, skip)
            asked_end = min(end, lookup)
            if asked_begin < asked_end:
                count_blocks(total[found], asked_begin, asked_end, lookup, tokens, rest, size)
            begin = end
        left[now] = count


@compiled
def _open_tails(
    times: Int64,
    left: Int32,
    instance: Int32,
    block_bytes: Int64,
    edges: Int64,
    first: Int32,
    held: Float64,
) -> None:
    """From the last use of each block to the end of the trace."""
    for request in range(len(times)):
        if left[request] > 0:
            gap = times[-1] - times[request]
            _hold(held, find_bin(gap, edges, first), left[request], gap, block_bytes[instance[request]])
