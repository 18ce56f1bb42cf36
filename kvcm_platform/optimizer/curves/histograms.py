"""Histograms of a trace, and how often its blocks are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiled import compiled
from ..curve import Progress
from ..trace import Int32, Int64, Trace
from .bins import Edges, edges_of, find_bin, log_linear
from .chunks import CHUNK_BLOCKS, chunks

COARSE_BITS = 3
"""8 bins a doubling: fine enough to draw."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[k]` of values above `edges[k - 1]` (or 0) up to `edges[k]`; all values lie below the last."""

    edges: Int64
    counts: Int64

    def to_json(self) -> dict[str, Any]:
        return {"edges": self.edges.tolist(), "counts": self.counts.tolist()}


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """`blocks[k]` distinct blocks were used more than `edges[k - 1]` and up to `edges[k]` times, and have
    `accesses[k]` of all accesses together."""

    edges: Int64
    blocks: Int64
    accesses: Int64

    def to_json(self) -> dict[str, Any]:
        return {
            "edges": self.edges.tolist(),
            "blocks": self.blocks.tolist(),
            "accesses": self.accesses.tolist(),
        }


def coarse_edges(most: int) -> Edges:
    """For a histogram of values up to `most`, 0 on its own."""
    return edges_of(np.concatenate([[0], log_linear(max(1, most), per_octave_bits=COARSE_BITS)]))


def histogram_of(edges: Int64, counts: Int64) -> Histogram:
    """Without the empty bins beyond the largest value."""
    used = np.flatnonzero(counts)
    length = min(int(used[-1]) + 1 if len(used) else 1, len(edges))
    return Histogram(edges[:length].copy(), counts[:length].copy())


def block_accesses(trace: Trace, on_progress: Progress | None = None) -> Int32:
    """P: requests whose chain holds the block.

    A chain holds all ancestors of its last block, so chains are counted there and summed up towards the
    roots: no look at each access.
    """
    counts = np.zeros(trace.distinct_blocks, dtype=np.int32)
    for chunk in chunks(trace):
        _count_ends(chunk.offset, chunk.path, counts)
        if on_progress is not None:
            on_progress(0.8 * chunk.end / trace.requests)
    end = trace.distinct_blocks
    while end > 0:
        begin = max(0, end - CHUNK_BLOCKS)
        _sum_up(begin, np.array(trace.parent[begin:end], dtype=np.int32), counts)
        end = begin
    if on_progress is not None:
        on_progress(1.0)
    return counts


def access_counts(trace: Trace, on_progress: Progress | None = None) -> AccessCounts:
    """How many blocks are used how often (outputs and what the engine had itself included)."""
    counts = block_accesses(trace, on_progress)
    edges = edges_of(log_linear(max(1, trace.requests), per_octave_bits=COARSE_BITS))
    found = np.zeros((len(edges) + 1, 2), dtype=np.int64)
    _bin_counts(counts, edges.values, edges.first, found)
    used = np.flatnonzero(found[:, 0])
    length = int(used[-1]) + 1 if len(used) else 1
    return AccessCounts(edges.values[:length].copy(), found[:length, 0].copy(), found[:length, 1].copy())


@compiled
def _count_ends(offset: Int64, path: Int32, counts: Int32) -> None:
    for request in range(len(offset) - 1):
        if offset[request + 1] > offset[request]:
            counts[path[offset[request + 1] - 1]] += 1


@compiled
def _sum_up(begin: int, parent: Int32, counts: Int32) -> None:
    """Children have higher numbers than their parents, so downwards each is complete when it is added."""
    for at in range(len(parent) - 1, -1, -1):
        if parent[at] >= 0:
            counts[parent[at]] += counts[begin + at]


@compiled
def _bin_counts(counts: Int32, edges: Int64, first: Int32, found: Int64) -> None:
    for at in range(len(counts)):
        row = find_bin(counts[at], edges, first)
        found[row, 0] += 1
        found[row, 1] += counts[at]
