"""The best of all capacities, not only of those that a curve has points at."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kvcm_platform.core.errors import invalid

from ..answers.thinning import curves_merge
from ..curve import Curve, Int64, Unit
from .benefit import roi
from .best import BestCapacity, best_of, net_bound
from .cost import CostModel
from .sizes import mean_block_bytes

ComputeCurve = Callable[[Sequence[int] | None], Curve]
"""The exact curve of one trace at these capacities in blocks; None: at many, up to all distinct blocks."""

MOST_POINTS = 20_000
"""Asked for in one round."""
_ROUNDS = 12


def exact_best(
    compute: ComputeCurve, cost: CostModel, *, block_bytes: float | None = None
) -> tuple[Curve, BestCapacity]:
    """The capacity in blocks that is worth most of all, for a policy whose hits never fall (LRU), and the
    curve.

    Only between two points whose bound lies over the best one found can a better one be: these are asked for,
    round by round, every one of them where there are few, and those with which tiers are full. One round is
    the rule, since points 1/128 of a doubling apart leave little. `most_net_money_month` of the answer equals
    `net_money_month` where that came to an end. Raises as `roi`.
    """
    curve = compute(None)
    if curve.definition.unit != Unit.BLOCKS:
        raise invalid("unit", "the best of all capacities is found in blocks")
    filled = _filled(curve, cost, block_bytes)
    if len(filled):
        curve = curves_merge([curve, compute(filled.tolist())])
    for _ in range(_ROUNDS):
        wanted = _between(curve, cost, block_bytes)
        if not len(wanted):
            break
        curve = curves_merge([curve, compute(wanted.tolist())])
    return curve, best_of(curve, roi(curve, cost, block_bytes=block_bytes))


def _filled(curve: Curve, cost: CostModel, block_bytes: float | None) -> Int64:
    """Blocks with which the tiers are full, one after the other, where the curve has no such point."""
    sizes = np.cumsum([tier.capacity_bytes for tier in cost.tiers if tier.capacity_bytes])
    floor = (sizes // mean_block_bytes(curve, block_bytes)).astype(np.int64)
    # A mean size is rounded, and with it perhaps one block more fits.
    blocks = np.unique(np.concatenate([floor, floor + 1]))
    blocks = blocks[(blocks > 0) & (blocks < curve.capacities[-1])]
    return np.setdiff1d(blocks, curve.capacities)


def _between(curve: Curve, cost: CostModel, block_bytes: float | None) -> Int64:
    """Capacities without a point where one could be worth more than the best."""
    worth = roi(curve, cost, block_bytes=block_bytes)
    best = max(0.0, float(worth.net_money_month.max()))
    # A rounding error above it is none.
    open_ = np.flatnonzero(net_bound(curve, worth) > best + 1e-9 * max(1.0, abs(best)))
    before = np.concatenate([[0], curve.capacities[:-1]])
    room = curve.capacities[open_] - before[open_] - 1
    open_, room = open_[room > 0], room[room > 0]
    if not len(open_):
        return np.empty(0, dtype=np.int64)
    each = max(1, MOST_POINTS // len(open_))
    found = [
        before[i] + np.unique(np.linspace(1, gap, min(each, int(gap))).round().astype(np.int64))
        for i, gap in zip(open_[:MOST_POINTS], room[:MOST_POINTS], strict=True)
    ]
    return np.concatenate(found)
