"""The axes of a picture of curves: capacity in bytes where their blocks' size is known, else in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.errors import DomainError, invalid
from kvcm_platform.core.sizes import sized

from ..answers.export import bytes_or_none
from ..curve import Curve, Float64, Unit
from ..roi.sizes import mean_block_bytes
from .content import Line, Quota

FEW_POINTS = 40
WIDEST = 4096
"""A dense curve is drawn from this part of its largest capacity on: below, little happens for most of the
picture."""


@dataclass(frozen=True, slots=True)
class CapacityAxis:
    """`block_bytes` is the size of a block for the second scale, 0 where there is none."""

    in_bytes: bool
    block_bytes: float
    low: float
    high: float

    def positions(self, curve: Curve) -> Float64:
        """Where each point of the curve lies, in the unit of the axis."""
        if self.in_bytes:
            found = bytes_or_none(curve, self.block_bytes or None)
            assert found is not None, "the axis is in bytes because all curves are"  # noqa: S101
            return found
        return _blocks(curve)

    def of_quota(self, quota: Quota) -> float | None:
        """Where the quota lies, None where it is not known in the unit of the axis."""
        if self.in_bytes:
            if quota.size_bytes is not None:
                return quota.size_bytes
            return quota.size_blocks * self.block_bytes if quota.size_blocks and self.block_bytes else None
        return quota.size_blocks

    def text(self, position: float) -> str:
        """A capacity in words: bytes, and blocks where they are known."""
        if not self.in_bytes:
            return f"{short(position)} blocks"
        if not self.block_bytes:
            return sized(round(position))
        return f"{sized(round(position))} ({short(position / self.block_bytes)} blocks)"

    def ticks(self) -> list[float]:
        """Positions of labels, within the axis: powers of 2 (bytes) or 10 (blocks), about seven."""
        if self.in_bytes:
            return _powers(self.low, self.high, 2.0, 7)
        return decades(self.low, self.high)

    def tick_text(self, position: float) -> str:
        return sized(round(position)) if self.in_bytes else short(position)


def capacity_axis(lines: Sequence[Line], *, block_bytes: float | None, quota: Quota | None) -> CapacityAxis:
    """Raises DomainError where there is nothing to draw or the curves have no common unit."""
    curves = [line.curve for line in lines if len(line.curve.capacities)]
    if not curves:
        raise invalid("curves", "there is no curve with a point to draw")
    in_bytes = all(bytes_or_none(curve, block_bytes) is not None for curve in curves)
    size = _block_bytes(curves, block_bytes) if in_bytes else 0.0
    axis = CapacityAxis(in_bytes, size, 0.0, 0.0)
    ends = [axis.positions(curve) for curve in curves]
    shown = [position for positions in ends for position in positions[positions > 0]]
    place = axis.of_quota(quota) if quota else None
    if place:
        shown.append(place)
    if not shown:
        raise invalid("curves", "no capacity is above 0")
    low, high = min(shown), max(shown)
    asked = [axis.positions(curve) for curve in curves if not is_dense(curve)]
    if len(asked) < len(curves):
        firsts = [float(positions[positions > 0].min(initial=high)) for positions in asked]
        low = max(low, min(place or high, high / WIDEST, *firsts))
    if high <= low:
        low, high = low / 2, high * 2
    return CapacityAxis(in_bytes, size, low, high)


def is_dense(curve: Curve) -> bool:
    """Whether its points are those that one pass gave, not the few that somebody asked for."""
    return len(curve.capacities) > FEW_POINTS


def _block_bytes(curves: Sequence[Curve], block_bytes: float | None) -> float:
    """One size for all, 0 where the curves' own differ."""
    try:
        sizes = {mean_block_bytes(curve, block_bytes) for curve in curves}
    except DomainError:
        return 0.0
    return sizes.pop() if len(sizes) == 1 else 0.0


def _blocks(curve: Curve) -> Float64:
    if curve.definition.policy == "ttl":
        if "mean_resident" not in curve.series:
            raise invalid("curves", "a TTL curve without mean_resident has no place on the axis of capacity")
        return curve.series["mean_resident"]
    if curve.definition.unit == Unit.BYTES:
        raise invalid("curves", "one is in bytes and another's blocks have no known size")
    return np.asarray(curve.capacities, dtype=np.float64)


def decades(low: float, high: float) -> list[float]:
    """Powers of ten within, with 2 and 5 between where there are few."""
    steps = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [value for value in found if low <= value <= high] or [low, high]


def _powers(low: float, high: float, base: float, most: int) -> list[float]:
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    if last <= first:
        return [low, high]
    step = max(1, math.ceil((last - first) / most))
    return [base**power for power in range(first, last + 1) if (power - first) % step == 0]


def rate_ticks(highest: float) -> list[float]:
    """Shares from 0 to the first round one that is not below `highest`, at most seven of them."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2):
        if highest <= step * 6:
            return [round(step * i, 2) for i in range(math.ceil(max(highest, step) / step - 1e-9) + 1)]
    return [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


def money_ticks(low: float, high: float) -> list[float]:
    """About six round numbers that reach from 0 or below `low` to `high` or above."""
    low, high = min(0.0, low), max(0.0, high)
    reach = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(reach / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if reach / (step * factor) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * i for i in range(first, last + 1)]


def short(value: float) -> str:
    """A number of at most four digits and a letter: 12.3 k, 4.5 M."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


_TIMES = ((86_400e6, "d"), (3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms"))


def span_text(microseconds: float) -> str:
    """In the largest unit of which there is one, to three digits."""
    for size, name in _TIMES:
        if microseconds >= size:
            return f"{microseconds / size:.3g} {name}"
    return f"{microseconds:.3g} us"
