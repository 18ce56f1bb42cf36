"""Fewer points of a curve, and the points of several in one: no point is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

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


def curves_merge(curves: Sequence[Curve]) -> Curve:
    """One curve with the capacities of all, of one policy and trace; of equal ones the first counts."""
    first = curves[0]
    if len(curves) == 1:
        return first
    capacities, at = np.unique(np.concatenate([curve.capacities for curve in curves]), return_index=True)

    def column(name: str) -> Any:
        return np.concatenate([getattr(curve, name) for curve in curves])[at]

    names = [name for name in first.series if all(name in curve.series for curve in curves)]
    whole = [name for name in names if all(len(c.series[name]) == len(c.capacities) for c in curves)]
    return replace(
        first,
        capacities=capacities,
        **{
            name: column(name)
            for name in ("hit_blocks", "hit_tokens", "hit_bytes", "hit_token_positions", "full_hit_requests")
        },
        series={name: np.concatenate([curve.series[name] for curve in curves])[at] for name in whole},
    )
