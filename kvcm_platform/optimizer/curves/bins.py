"""Edges of histograms: log-linear ones, or any given, with a table that finds the edge of a value at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.errors import invalid

from ..bits import leading_zeros
from ..compiled import compiled
from ..trace import Int32, Int64

OCTAVE_BITS = 7
"""2^7 = 128 edges an octave: neighbours are less than 0.8 % apart, and below 256 every number is one."""

MOST_CAPACITIES = 100_000
MOST = 1 << 62


@compiled
def code_of(value: int) -> int:
    """Number of the log-linear bin of a value >= 0: linear below 2^8, then 128 bins for each doubling."""
    shift: int = max(0, 64 - leading_zeros(value) - OCTAVE_BITS - 1)
    return (shift << OCTAVE_BITS) + (value >> shift)


def _lowest(codes: Int64, octave_bits: int = OCTAVE_BITS) -> Int64:
    """The least value of each log-linear bin."""
    shift: Int64 = np.maximum(0, (codes >> octave_bits) - 1)
    lowest: Int64 = (codes - (shift << octave_bits)) << shift
    return lowest


@dataclass(frozen=True, slots=True)
class Edges:
    """E edges, ascending: bin k holds the values above edge k-1 up to edge k; bin E what is above all.

    `first[code_of(value)]` is where the search for the bin of a value begins, upwards: `find_bin`.
    """

    values: Int64
    first: Int32

    def __len__(self) -> int:
        return len(self.values)


@compiled
def find_bin(value: int, edges: Int64, first: Int32) -> int:
    """The first edge that is not below a value >= 0; `len(edges)` where there is none."""
    code = code_of(value)
    if code >= len(first):
        return len(edges)
    found = first[code]
    while found < len(edges) and edges[found] < value:
        found += 1
    return int(found)


def edges_of(values: Sequence[int] | Int64) -> Edges:
    """Edges at these values (each once, in any order, none negative)."""
    edges = np.unique(np.asarray(values, dtype=np.int64))
    codes = np.arange(code_of(int(edges[-1])) + 1 if len(edges) else 0, dtype=np.int64)
    return Edges(edges, np.searchsorted(edges, _lowest(codes)).astype(np.int32))


def log_linear(most: int, *, per_octave_bits: int = OCTAVE_BITS) -> Int64:
    """Edges from 1 to `most`, each number below 2^(bits + 1), then 2^bits a doubling; the last is `most`.

    Those for fewer bits are among those for more.
    """
    octaves = int(most).bit_length()
    uppers = _lowest(np.arange(2, (octaves + 1) << per_octave_bits), per_octave_bits) - 1
    return np.append(uppers[uppers < most], most).astype(np.int64)


def capacities_of(values: Sequence[int] | Int64, field: str = "capacities") -> Int64:
    """What a caller asks for: each once, ascending. INVALID_ARGUMENT if one is negative or over 2^62, or
    for too many."""
    try:
        found = np.unique(np.asarray(values, dtype=np.int64))
    except OverflowError:
        raise invalid(field, f"at most {MOST}") from None
    if not len(found):
        raise invalid(field, "give one at least")
    if found[0] < 0:
        raise invalid(field, f"{found[0]} is negative")
    if found[-1] > MOST:
        raise invalid(field, f"{found[-1]} is more than {MOST}")
    if len(found) > MOST_CAPACITIES:
        raise invalid(field, f"{len(found)} are more than {MOST_CAPACITIES}")
    return found
