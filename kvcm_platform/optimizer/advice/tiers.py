"""How a group's room should be split between two types of storage."""

from __future__ import annotations

import numpy as np

from kvcm_platform.core.sizes import sized
from kvcm_platform.optimizer.advice.reading import (
    LEAST_MONEY_GAIN,
    LEAST_QUOTA_CHANGE,
    Advice,
    GroupNow,
    HitRates,
    rounded_up,
)
from kvcm_platform.optimizer.advice_kinds import AdviceKind
from kvcm_platform.optimizer.curve import Curve, Float64
from kvcm_platform.optimizer.roi import GIB, MONTH_SECONDS, CostModel


def tiers_advice(now: GroupNow, curve: Curve, rates: HitRates, cost: CostModel) -> Advice | None:
    """How much of the two types' room should be of the faster one: exactly, at the curve's breakpoints.

    What is paid is both rooms, and the accelerators' time while hits are loaded (OPTIMIZER.md 1.8: the
    first tier serves hits(C1), the second the rest of hits(C1 + C2)).
    """
    if len(now.per_type) != 2 or len(cost.tiers) < 2 or curve.span_us <= 0 or not now.mean_ratio:
        return None
    fast, slow = cost.tiers[:2]
    (first, old_first), (second, old_second) = now.per_type.items()
    if not fast.bandwidth_bytes_per_second or not slow.bandwidth_bytes_per_second:
        return None
    room = float(old_first + old_second)
    held = room * now.mean_ratio
    last = rates.place(held)
    if last is None:
        return None
    served = np.concatenate([[0.0], rates.hit_bytes[: last + 1]])
    sizes = np.concatenate([[0.0], rates.bytes[: last + 1]]) / now.mean_ratio
    waiting_price = cost.gpu_hour_price / 3600 * cost.gpus_per_engine * MONTH_SECONDS / (curve.span_us / 1e6)

    def price(first_bytes: Float64, first_hits: Float64) -> Float64:
        slow_hits = served[-1] - first_hits
        waiting = first_hits / fast.bandwidth_bytes_per_second + slow_hits / slow.bandwidth_bytes_per_second
        room_price = first_bytes * fast.price_per_gib_month + (room - first_bytes) * slow.price_per_gib_month
        return np.asarray(room_price / GIB + waiting * waiting_price)

    prices = price(sizes, served)
    best = int(np.argmin(prices))
    place = int(np.searchsorted(sizes, old_first, side="right")) - 1
    present = float(price(np.asarray(float(old_first)), served[place]))
    wanted = rounded_up(float(sizes[best]))
    saved = present - float(prices[best])
    if abs(wanted - old_first) < LEAST_QUOTA_CHANGE * room or saved < LEAST_MONEY_GAIN * present:
        return None
    if wanted > room:
        return None
    share = float(served[best] / served[-1]) if served[-1] else 0.0
    rest = int(room) - wanted
    sentence = (
        f"Give {first} {sized(wanted)} and {second} {sized(rest)} of the room of group {now.name}, instead of"
        f" {sized(old_first)} and {sized(old_second)}: {first} then serves {share:.0%} of the bytes that are"
        f" hit, and {saved:,.0f} {cost.currency} a month are saved."
    )
    figures = {
        "per_type": dict(now.per_type),
        "wanted_per_type": {first: wanted, second: rest},
        "first_hit_ratio": share,
        "saved_money_month": saved,
        "currency": cost.currency,
    }
    return Advice(AdviceKind.TIERS, sentence, figures, {"quota": {"per_type": {first: wanted, second: rest}}})
