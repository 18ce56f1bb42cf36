"""The exact hit-rate curve of LRU at all capacities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..curve import Curve, Definition, Progress, Touch, Unit
from ..trace import Int64, Trace
from . import stack
from .bins import Edges, capacities_of, edges_of, log_linear
from .chunks import Chunk, Weights, chunks, distinct_units, require_turns, weights_of

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
    doubling up to all distinct blocks. `series` has `evicted_blocks`: those that left the cache, counted
    after each request, which is what a second tier would be given. Requests longer than the capacity
    leave their first blocks (DEEP) or their last ones (ROOT) in the cache.

    Raises UNSUPPORTED for a trace that reads and writes apart, INVALID_ARGUMENT for bad capacities or for
    bytes where the size of blocks is unknown.
    """
    require_turns(trace, "the LRU curve")
    weights = weights_of(trace, unit)
    wanted = wanted_capacities(trace, weights, capacities)
    run = StackRun(trace, weights, edges_of(wanted // weights.unit_size), touch)
    for chunk in chunks(trace):
        run.take(chunk)
        if on_progress is not None:
            on_progress(chunk.end / trace.requests)
    return run.curve(Definition("lru", touch=touch, unit=unit), wanted)


def wanted_capacities(trace: Trace, weights: Weights, capacities: Sequence[int] | Int64 | None) -> Int64:
    """Those given, or log-linear ones up to all distinct blocks."""
    if capacities is not None:
        return capacities_of(capacities)
    return log_linear(max(1, distinct_units(trace, weights.units))) * weights.unit_size


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

    def take(self, chunk: Chunk, extras: tuple[Any, ...] | None = None) -> None:
        """Goes on by a chunk. `extras` are the last arguments of `stack_pass`, from `groups` on."""
        if extras is None:
            extras = (
                np.zeros((chunk.end - chunk.begin, 0), dtype=np.int32),
                *(_NONE32, np.zeros((0, 0, stack.WIDTH), dtype=np.int64)),
                *(_NONE64, _NONE64, _NONE32, _NONE64),
                *(_NONE64, _NONE32, _NONE64),
            )
        weights = self.weights
        arguments: tuple[Any, ...] = (
            *(*chunk.columns, chunk.at_us, self.is_root),
            *(weights.block_tokens, weights.block_bytes, weights.units),
            *(self.last, self.tree, self.state),
            *(self.edges.values, self.edges.first, self.total),
            *extras,
        )
        stack.stack_pass(*arguments)

    def resident(self) -> Int64:
        """Blocks that are in the cache at the end, by edge."""
        units = self.weights.units
        if (units == 1).all():
            return np.minimum(self.edges.values, int(self.state[0]))
        instance = np.asarray(self.trace.instance, dtype=np.int32)
        found = np.zeros(len(self.edges), dtype=np.int64)
        stack.resident_blocks(self.tree, self.trace.requests, instance, units, self.edges.values, found)
        return found

    def curve(self, definition: Definition, capacities: Int64) -> Curve:
        at = np.searchsorted(self.edges.values, capacities // self.weights.unit_size)
        curve = curve_of_rows(self.trace, self.total, at, definition, capacities)
        touched = self.total[:, stack.TOUCHED]
        brought = touched[-1] - touched[:-2].cumsum()[at]
        evicted = (brought - self.resident()[at]).astype(np.float64)
        return replace(curve, series={"evicted_blocks": evicted})


def curve_of_rows(trace: Trace, rows: Int64, at: Int64, definition: Definition, capacities: Int64) -> Curve:
    """Rows of `stack_pass` (E + 2, WIDTH) as a curve at `capacities`, whose bins are `at`."""
    hits = rows[:-1].cumsum(axis=0)
    return Curve(
        definition=replace(definition, has_partial_blocks=trace.header.has_partial_blocks),
        capacities=capacities,
        hit_blocks=hits[at, stack.BLOCKS],
        hit_tokens=hits[at, stack.TOKENS],
        hit_bytes=hits[at, stack.BYTES],
        hit_token_positions=hits[at, stack.POSITIONS].astype(np.float64),
        full_hit_requests=hits[at, stack.FULL],
        requests=trace.requests,
        blocks=int(rows[-1, stack.BLOCKS]),
        tokens=int(rows[-1, stack.TOKENS]),
        bytes=int(rows[-1, stack.BYTES]),
        distinct_blocks=int(rows[-1, stack.FRESH]),
        distinct_bytes=int(rows[-1, stack.FRESH_BYTES]),
        unlimited_hit_blocks=int(hits[-1, stack.BLOCKS]),
        unlimited_hit_tokens=int(hits[-1, stack.TOKENS]),
        span_us=trace.span_us,
    )
