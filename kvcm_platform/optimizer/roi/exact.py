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
    round by round, every one of them where there are few. One round is the rule, since points 1/128 of a
    doubling apart leave little. `most_net_money_month` of the answer equals `net_money_month` where that came
    to an end. Raises as `roi`.
    """
    curve = compute(None)
    if curve.definition.unit != Unit.BLOCKS:
        raise invalid("unit", "the best of all capacities is found in blocks")
    for _ in range(_ROUNDS):
        wanted = _between(curve, cost, block_bytes)
        if not len(wanted):
            break
        curve = curves_merge([curve, compute(wanted.tolist())])
    return curve, best_of(curve, roi(curve, cost, block_bytes=block_bytes))


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
