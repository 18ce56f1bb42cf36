"""All that one LRU pass tells: the whole's curve and those of its parts, reuse, accesses, working sets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvcm_platform.core.errors import invalid

from ..curve import Curve, Definition, Progress, Touch, Unit, curve_to_json, progress_part
from ..trace import Int64, Trace
from . import stack
from .bins import edges_of, log_linear
from .chunks import Chunk, chunks, distinct_units, require_turns, weights_of
from .histograms import AccessCounts, Histogram, access_counts, coarse_edges, histogram_of
from .lru import StackRun, curve_of_rows, wanted_capacities

WINDOWS = 48
MOST_WINDOWS = 10_000
MOST_CELLS = 4_000_000
"""Rows of all parts together: 256 MB."""
PART_BITS = 4
"""16 capacities of each doubling for parts, where none are given."""
BY = ("instance", "type")


@dataclass(frozen=True, slots=True)
class Window:
    """Requests from `begin_us` up to, not including, `end_us`, in a cache that saw all before."""

    begin_us: int
    end_us: int
    curve: Curve


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Distinct blocks used in the window that begins at `at_us`."""

    at_us: int
    blocks: int


@dataclass(frozen=True, slots=True)
class LruAnalysis:
    """Parts are of one shared cache: the curve of an instance is what it hits beside all the others.

    A part's `distinct_blocks` are those that no part before had used. `reuse_distance` counts blocks asked
    for by the capacity that would have kept them, `reuse_time` by the microseconds since their last use.
    """

    total: Curve
    by_instance: dict[str, Curve]
    by_type: dict[str, Curve]
    windows: list[Window]
    reuse_distance: Histogram
    reuse_time: Histogram
    access_counts: AccessCounts
    working_set: list[WorkingSet]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, whole."""
        return {
            "total": curve_to_json(self.total),
            "by_instance": {name: curve_to_json(curve) for name, curve in self.by_instance.items()},
            "by_type": {name: curve_to_json(curve) for name, curve in self.by_type.items()},
            "windows": [
                {"begin_us": one.begin_us, "end_us": one.end_us, "curve": curve_to_json(one.curve)}
                for one in self.windows
            ],
            "reuse_distance": self.reuse_distance.to_json(),
            "reuse_time": self.reuse_time.to_json(),
            "access_counts": self.access_counts.to_json(),
            "working_set": [{"at_us": one.at_us, "blocks": one.blocks} for one in self.working_set],
        }


def lru_analysis(
    trace: Trace,
    capacities: Sequence[int] | Int64 | None = None,
    *,
    windows_us: int | None = None,
    by: Collection[str] = BY,
    touch: Touch = Touch.DEEP,
    unit: Unit = Unit.BLOCKS,
    on_progress: Progress | None = None,
) -> LruAnalysis:
    """`lru_curve` and its parts from the same pass; 8 bytes a request more, and 64 a part and capacity.

    `windows_us` is the length of a window (None: the trace in 48, 0: none); `by` says which parts beside
    windows. Without `capacities` the whole has 128 of each doubling, parts 16.

    Raises what `lru_curve` does, and INVALID_ARGUMENT for more windows or parts than there is room for.
    """
    require_turns(trace, "the LRU curve")
    if unknown := set(by) - set(BY):
        raise invalid("by", f"{sorted(unknown)[0]} is none of {', '.join(BY)}")
    weights = weights_of(trace, unit)
    wanted = wanted_capacities(trace, weights, capacities)
    units = wanted // weights.unit_size
    most = max(1, distinct_units(trace, weights.units))
    part_units = units if capacities is not None else log_linear(most, per_octave_bits=PART_BITS)
    parts = _Parts(trace, np.unique(part_units), windows_us, by)
    reuse = coarse_edges(most)
    # Every edge of parts and of the histogram is one of the whole, so that bins can be added up.
    run = StackRun(trace, weights, edges_of(np.concatenate([units, part_units, reuse.values])), touch)
    parts.map(run.edges.values)
    for chunk in chunks(trace):
        run.take(chunk, parts.extras(chunk))
        progress_part(on_progress, 0, 0.8)(chunk.end / trace.requests)
    definition = Definition("lru", touch=touch, unit=unit)
    part_capacities = wanted if capacities is not None else parts.edges * weights.unit_size
    at = np.searchsorted(parts.edges, part_capacities // weights.unit_size)
    curves = [
        replace(
            curve_of_rows(trace, rows, at, definition, part_capacities),
            requests=int(parts.requests[number]),
            span_us=parts.span_us(number),
        )
        for number, rows in enumerate(parts.rows)
    ]
    total = run.curve(definition, wanted)
    distances = run.total[:-2, stack.BLOCKS].cumsum()[np.searchsorted(run.edges.values, reuse.values)]
    by_distance = histogram_of(reuse.values * weights.unit_size, np.diff(distances, prepend=0))
    # Its 4 bytes a distinct block take the place of these.
    del run
    return LruAnalysis(
        total=total,
        by_instance=dict(zip(parts.instance_names, curves, strict=False)),
        by_type=dict(zip(parts.type_names, curves[len(parts.instance_names) :], strict=False)),
        windows=[
            Window(begin, min(begin + parts.window_us, parts.end_us), curve)
            for begin, curve in zip(parts.window_begins(), curves[parts.named :], strict=True)
        ],
        reuse_distance=by_distance,
        reuse_time=histogram_of(parts.gap_edges.values, parts.gaps),
        access_counts=access_counts(trace, progress_part(on_progress, 0.8, 1)),
        working_set=[
            WorkingSet(begin, int(blocks))
            for begin, blocks in zip(parts.window_begins(), parts.working, strict=True)
        ],
    )


class _Parts:
    """Rows of parts: instances, then types, then windows; and what a chunk needs to add to them."""

    def __init__(self, trace: Trace, edges: Int64, windows_us: int | None, by: Collection[str]) -> None:
        header = trace.header
        self.edges = edges
        self.trace = trace
        self.instance_names = [one.instance_id for one in header.instances] if "instance" in by else []
        self.type_names = list(header.types) if "type" in by else []
        self.named = len(self.instance_names) + len(self.type_names)
        self.begin_us = int(trace.at_us[0]) if trace.requests else 0
        self.end_us = self.begin_us + trace.span_us + 1
        if windows_us is None:
            windows_us = -(-(trace.span_us + 1) // WINDOWS)
        if windows_us < 0:
            raise invalid("windows_us", f"{windows_us} is negative")
        self.window_us = windows_us
        windows = -(-(trace.span_us + 1) // windows_us) if windows_us and trace.requests else 0
        if windows > MOST_WINDOWS:
            raise invalid("windows_us", f"would make {windows} windows, at most {MOST_WINDOWS}")
        if (self.named + windows) * (len(edges) + 2) > MOST_CELLS:
            raise invalid(
                "capacities", f"{len(edges)} of {self.named + windows} parts are more than there is room for"
            )
        self.rows = np.zeros((self.named + windows, len(edges) + 2, stack.WIDTH), dtype=np.int64)
        self.requests = np.zeros(self.named + windows, dtype=np.int64)
        self.times = np.zeros(trace.requests, dtype=np.int64)
        self.gap_edges = coarse_edges(trace.span_us)
        self.gaps = np.zeros(len(self.gap_edges) + 1, dtype=np.int64)
        self.working = np.zeros(windows, dtype=np.int64)
        begins = self.begin_us + self.window_us * np.arange(windows, dtype=np.int64)
        self.first_requests = np.searchsorted(trace.at_us, begins).astype(np.int64)
        self.coarse = np.zeros(0, dtype=np.int32)

    def map(self, fine: Int64) -> None:
        """To the bins of the whole, whose last rows are those above all edges and of totals."""
        found = np.searchsorted(self.edges, fine)
        self.coarse = np.concatenate([found, [len(self.edges)]]).astype(np.int32)

    def extras(self, chunk: Chunk) -> tuple[Any, ...]:
        columns = []
        if self.instance_names:
            columns.append(chunk.instance)
        if self.type_names:
            columns.append(chunk.type + len(self.instance_names))
        windows = np.zeros(0, dtype=np.int32)
        if len(self.working):
            windows = ((chunk.at_us - self.begin_us) // self.window_us).astype(np.int32)
            columns.append(windows + self.named)
        groups = np.zeros((chunk.end - chunk.begin, len(columns)), dtype=np.int32)
        for place, column in enumerate(columns):
            groups[:, place] = column
            self.requests += np.bincount(column, minlength=len(self.requests))
        return (
            *(groups, self.coarse, self.rows),
            *(self.times, self.gap_edges.values, self.gap_edges.first, self.gaps),
            *(self.first_requests, windows, self.working),
        )

    def window_begins(self) -> list[int]:
        return [self.begin_us + number * self.window_us for number in range(len(self.working))]

    def span_us(self, part: int) -> int:
        if part < self.named:
            return self.trace.span_us
        begin = self.window_begins()[part - self.named]
        return min(self.window_us, self.end_us - begin)
