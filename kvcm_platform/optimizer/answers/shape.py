"""What the shape of a curve says: its knee, what the next GiB brings, the hit rate at a capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.errors import invalid

from ..curve import Curve, Float64, Int64


@dataclass(frozen=True, slots=True)
class Knee:
    """`index` is the position in the curve."""

    index: int
    capacity: int
    hit_rate: float


def knee(curve: Curve) -> Knee | None:
    """The point from which more capacity brings less than it brought on average, or None for a curve without
    hits.

    The point furthest above the straight line from nothing to the smallest capacity with the most hits, on
    linear axes (Satopaa et al., "Finding a Kneedle in a Haystack", 2011, without smoothing: curves are
    exact).
    """
    most = int(curve.hit_blocks.max(initial=0))
    if not most:
        return None
    end = int(np.argmax(curve.hit_blocks == most))
    reached = curve.hit_blocks[: end + 1] / most
    size = curve.capacities[: end + 1] / max(1, int(curve.capacities[end]))
    index = int(np.argmax(reached - size))
    return Knee(index, int(curve.capacities[index]), float(curve.hit_rate[index]))


def marginal_hit_rate_per_gib(curve: Curve, capacity_bytes: Float64) -> Float64:
    """Hit rate that each GiB brings between the point before (nothing before the first) and each point.

    `capacity_bytes` are those of the curve's points (`roi.capacity_bytes`); 0 where a point is no larger
    than the one before.
    """
    gib = np.diff(capacity_bytes, prepend=0.0) / (1 << 30)
    gained = np.diff(curve.hit_rate, prepend=0.0)
    return np.divide(gained, gib, out=np.zeros_like(gained), where=gib > 0)


def index_at(curve: Curve, capacity: float) -> int:
    """The last point of the curve within `capacity` (in its unit), -1 where all are larger."""
    return int(np.searchsorted(curve.capacities, capacity, side="right")) - 1


def hit_rate_at(curve: Curve, capacity: float) -> float:
    """Hit rate of the last point within `capacity`: what is certain to be reached."""
    index = index_at(curve, capacity)
    return float(curve.hit_rate[index]) if index >= 0 else 0.0


def capacity_for(curve: Curve, hit_rate: float) -> int | None:
    """The smallest capacity of the curve with at least this hit rate, None where none has it."""
    reached = np.flatnonzero(curve.hit_rate >= hit_rate)
    return int(curve.capacities[reached[0]]) if len(reached) else None


@dataclass(frozen=True, slots=True)
class Gap:
    """What a policy leaves to the clairvoyant bound, at the bound's capacities."""

    capacities: Int64
    hit_rate: Float64
    """Of the policy, at its last point within each capacity."""
    bound_rate: Float64
    equivalent_capacity: Int64
    """The smallest capacity with which the policy hits as much as the bound does; 0 where none does."""

    @property
    def gap(self) -> Float64:
        return self.bound_rate - self.hit_rate


def gap_to_bound(curve: Curve, bound: Curve) -> Gap:
    """Both of the same trace in the same unit. Raises DomainError where they do not belong together."""
    if (curve.blocks, curve.definition.unit) != (bound.blocks, bound.definition.unit):
        raise invalid("bound", "it is not of the same trace and unit as the curve")
    rates = bound.hit_rate
    equivalent = [capacity_for(curve, float(rate)) or 0 for rate in rates]
    return Gap(
        capacities=bound.capacities,
        hit_rate=np.asarray([hit_rate_at(curve, int(capacity)) for capacity in bound.capacities]),
        bound_rate=rates,
        equivalent_capacity=np.asarray(equivalent, dtype=np.int64),
    )
