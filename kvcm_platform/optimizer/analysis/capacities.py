"""Capacities as people write them: numbers of blocks, shares of what a trace holds, sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.curve import Unit
from kvcm_platform.optimizer.trace import Trace, blocks_by_instance

Wish = int | str
"""A number in the unit of the analysis, or a text: "5000", "10%", "64GiB"."""

_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|[kmgtp]?i?b)?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
MOST = 1 << 62


class _Kind(StrEnum):
    PLAIN = "plain"
    RATIO = "ratio"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What capacities are relative to. `block_bytes` is 0 where blocks differ in size, or have none."""

    distinct_blocks: int
    distinct_bytes: int
    block_bytes: int


def sizes_of(trace: Trace) -> Sizes:
    """What capacities of the trace are relative to."""
    block_bytes = np.array([instance.block_bytes for instance in trace.header.instances], dtype=np.int64)
    counts = blocks_by_instance(trace)
    used = {int(size) for size, count in zip(block_bytes, counts, strict=True) if count}
    return Sizes(
        distinct_blocks=trace.distinct_blocks,
        distinct_bytes=int(counts @ block_bytes),
        block_bytes=used.pop() if len(used) == 1 else 0,
    )


def capacity_check(wish: Wish, field: str = "capacities") -> None:
    """Raises INVALID_ARGUMENT for what is no capacity."""
    _parsed(wish, field)


def is_size(wish: Wish) -> bool:
    """Whether it is written in bytes, whatever the unit of the analysis."""
    return _parsed(wish, "capacities")[0] is _Kind.BYTES


def capacities_resolve(
    wishes: Sequence[Wish], sizes: Sizes, unit: str, field: str = "capacities"
) -> tuple[int, ...]:
    """In blocks or bytes as `unit` says, ascending, each once; shares round to the nearest, at least 1.

    Raises INVALID_ARGUMENT for sizes where blocks have no single one.
    """
    return tuple(sorted({capacity_resolve(wish, sizes, unit, field) for wish in wishes}))


def capacity_resolve(wish: Wish, sizes: Sizes, unit: str, field: str = "capacities") -> int:
    """One capacity; raises as capacities_resolve."""
    kind, amount = _parsed(wish, field)
    if kind is _Kind.RATIO:
        whole = sizes.distinct_bytes if unit == Unit.BYTES else sizes.distinct_blocks
        return max(1, round(amount * whole))
    if kind is _Kind.BYTES and unit != Unit.BYTES:
        if not sizes.block_bytes:
            raise invalid(
                field,
                f"{wish} is no number of blocks: the trace's blocks have no size, or differ in it;"
                " sizes that differ can be counted in unit bytes",
            )
        return max(1, int(amount) // sizes.block_bytes)
    return int(amount)


def _parsed(wish: Wish, field: str) -> tuple[_Kind, float]:
    if isinstance(wish, int) and not isinstance(wish, bool):
        if not 0 < wish <= MOST:
            raise invalid(field, f"{wish} is not above 0")
        return _Kind.PLAIN, wish
    match = _TEXT.fullmatch(wish) if isinstance(wish, str) and len(wish) <= 40 else None
    if match is None:
        raise invalid(field, f"{wish!r} is no capacity: write 5000, 10% or 64GiB")
    amount, suffix = float(match[1]), (match[2] or "").lower()
    if suffix == "%":
        if not 0 < amount <= 100:
            raise invalid(field, f"{wish} is not above 0 % and at most 100 %")
        return _Kind.RATIO, amount / 100
    if not suffix:
        if not 0 < amount <= MOST or amount != math.floor(amount):
            raise invalid(field, f"{wish} is no whole number above 0")
        # Not by way of a float: that has 53 bits.
        return _Kind.PLAIN, int(match[1].split(".")[0])
    base = 1024 if "i" in suffix else 1000
    size = amount * base ** _POWERS[suffix.rstrip("b").rstrip("i")]
    if not 1 <= size <= MOST:
        raise invalid(field, f"{wish} is not within 1 B and {MOST} B")
    return _Kind.BYTES, size
