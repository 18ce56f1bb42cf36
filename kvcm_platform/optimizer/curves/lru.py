"""The exact hit-rate curve of LRU at all capacities, and all that the same pass yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..curve import Curve, Definition, Int64, Progress, Touch, Unit
from ..trace import Trace
from . import stack
from .bins import Edges, capacities_of, edges_of, log_linear
from .chunks import Weights, chunks, counts_by_instance, distinct_units, require_turns, weights_of

_NONE32 = np.zeros(0, dtype=np.int32)
_NONE64 = np.zeros(0, dtype=np.int64)


def lru_curve(
    trace: Trace,
    capacities: Sequence[int] | Int64 | None = None,
    *,
    touch: Touch = Touch.DEEP,
    unit: Unit = Unit.BLOCKS,
    on_progress: Progress | None = None,
) -> Curve:
    """Hits of one LRU cache that all of the trace's instances share, exact at each capacity.

    `capacities` in blocks or bytes (`unit`), ascending in the answer, each once; None: 128 of each
    doubling up to all distinct blocks. `series` has `evicted_blocks`: those that left the cache, which is
    what a second tier would be given. Requests longer than the capacity leave their first blocks (DEEP)
    or their last ones (ROOT) in the cache.

    Raises UNSUPPORTED for a trace that reads and writes apart, INVALID_ARGUMENT for bad capacities or for
    bytes where the size of blocks is unknown.
    """
    require_turns(trace, "the LRU curve")
    weights = weights_of(trace, unit)
    most = distinct_units(trace, weights.units)
    steps = log_linear(max(1, most)) * weights.unit_size
    wanted = steps if capacities is None else capacities_of(capacities)
    edges = edges_of(wanted // weights.unit_size)
    run = StackRun(trace, weights, edges, touch)
    run.go(on_progress)
    return run.curve(Definition("lru", touch=touch, unit=unit), wanted)


class StackRun:
    """One pass over a trace with its state: 4 bytes a distinct block and 8 a request."""

    def __init__(self, trace: Trace, weights: Weights, edges: Edges, touch: Touch) -> None:
        self.trace = trace
        self.weights = weights
        self.edges = edges
        self.is_root = touch is Touch.ROOT
        self.last = np.full(trace.distinct_blocks, -1, dtype=np.int32)
        self.tree = np.zeros(trace.requests + 1, dtype=np.int64)
        self.state = np.zeros(1, dtype=np.int64)
        self.total = np.zeros((len(edges) + 2, stack.WIDTH), dtype=np.int64)

    def go(self, on_progress: Progress | None) -> None:
        for chunk in chunks(self.trace):
            stack.stack_pass(
                self.is_root,
                chunk.begin,
                chunk.at_us,
                chunk.instance,
                chunk.skip_n,
                chunk.read_n,
                chunk.last_tokens,
                chunk.offset,
                chunk.path,
                self.weights.block_tokens,
                self.weights.block_bytes,
                self.weights.units,
                self.last,
                self.tree,
                self.state,
                self.edges.values,
                self.edges.first,
                self.total,
                np.zeros((chunk.end - chunk.begin, 0), dtype=np.int32),
                _NONE32,
                np.zeros((0, 0, stack.WIDTH), dtype=np.int64),
                _NONE64,
                _NONE64,
                _NONE32,
                _NONE64,
                _NONE64,
                _NONE32,
                _NONE64,
            )
            if on_progress is not None:
                on_progress(chunk.end / self.trace.requests)

    def resident(self) -> Int64:
        """Blocks that are in the cache at the end, by edge."""
        units = self.weights.units
        if (units == 1).all():
            return np.minimum(self.edges.values, int(self.state[0]))
        instance = np.asarray(self.trace.instance, dtype=np.int32)
        found: Int64 = stack.resident_blocks(
            self.tree, self.trace.requests, instance, units, self.edges.values
        )
        return found

    def curve(self, definition: Definition, capacities: Int64) -> Curve:
        return curve_of(
            self.trace, self.weights, self.total, self.edges, definition, capacities, self.resident()
        )


def curve_of(
    trace: Trace,
    weights: Weights,
    rows: Int64,
    edges: Edges,
    definition: Definition,
    capacities: Int64,
    resident: Int64 | None,
) -> Curve:
    """Rows of `stack_pass` as a curve at `capacities`, each of which has an edge."""
    count = len(edges)
    hits = rows[: count + 1].cumsum(axis=0)
    totals = rows[count + 1]
    at = np.searchsorted(edges.values, capacities // weights.unit_size)
    series = {}
    if resident is not None:
        brought = totals[stack.TOUCHED] - hits[at, stack.TOUCHED]
        series["evicted_blocks"] = (brought - resident[at]).astype(np.float64)
    distinct = counts_by_instance(trace)
    return Curve(
        definition=replace(definition, has_partial_blocks=trace.header.has_partial_blocks),
        capacities=capacities,
        hit_blocks=hits[at, stack.BLOCKS],
        hit_tokens=hits[at, stack.TOKENS],
        hit_bytes=hits[at, stack.BYTES],
        hit_token_positions=hits[at, stack.POSITIONS].astype(np.float64),
        full_hit_requests=hits[at, stack.FULL],
        requests=trace.requests,
        blocks=int(totals[stack.BLOCKS]),
        tokens=int(totals[stack.TOKENS]),
        bytes=int(totals[stack.BYTES]),
        distinct_blocks=trace.distinct_blocks,
        distinct_bytes=int(distinct @ weights.block_bytes),
        unlimited_hit_blocks=int(hits[-1, stack.BLOCKS]),
        unlimited_hit_tokens=int(hits[-1, stack.TOKENS]),
        span_us=trace.span_us,
        series=series,
    )
