"""Fewer points of a curve, for pictures and answers: no point that is left is changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..curve import Curve, Int64


def thinned(curve: Curve, most: int, *, keep: Iterable[int] = ()) -> Curve:
    """At most `most` points and those at the positions `keep`: first, last and evenly spaced in the
    logarithm."""
    return at_points(curve, spread(curve, most, keep=keep))


def spread(curve: Curve, most: int, *, keep: Iterable[int] = ()) -> Int64:
    """Positions of the points that `thinned` leaves, ascending."""
    count = len(curve.capacities)
    if count <= most:
        return np.arange(count, dtype=np.int64)
    logs = np.log2(np.maximum(1, curve.capacities))
    targets = np.linspace(logs[0], logs[-1], max(2, most))
    nearest = np.searchsorted(logs, targets).clip(0, count - 1)
    kept = [index for index in keep if 0 <= index < count]
    return np.unique(np.concatenate([[0], nearest, [count - 1], kept]).astype(np.int64))


def at_points(curve: Curve, positions: Int64) -> Curve:
    """The curve with the points at these positions alone."""
    return replace(
        curve,
        capacities=curve.capacities[positions],
        hit_blocks=curve.hit_blocks[positions],
        hit_tokens=curve.hit_tokens[positions],
        hit_bytes=curve.hit_bytes[positions],
        hit_token_positions=curve.hit_token_positions[positions],
        full_hit_requests=curve.full_hit_requests[positions],
        series={
            name: values[positions] if len(values) == len(curve.capacities) else values
            for name, values in curve.series.items()
        },
    )
