"""How large a group's quota should be."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvcm_platform.core.sizes import sized
from kvcm_platform.optimizer.advice.reading import (
    LEAST_GAIN,
    LEAST_MONEY_GAIN,
    LEAST_QUOTA_CHANGE,
    Advice,
    GroupNow,
    HitRates,
    rounded_up,
)
from kvcm_platform.optimizer.advice_kinds import AdviceKind
from kvcm_platform.optimizer.curve import Curve
from kvcm_platform.optimizer.roi import Roi

MOST_LOSS = 0.005
"""Of the hit rate, that a smaller quota may cost where nobody said what hits are worth."""


def quota_advice(now: GroupNow, curve: Curve, rates: HitRates, money: Roi | None) -> Advice | None:
    best = _best_bytes(now, rates, money)
    if best is None or not now.mean_ratio:
        return None
    wanted = rounded_up(best / now.mean_ratio)
    if abs(wanted - now.quota_bytes) < LEAST_QUOTA_CHANGE * max(1, now.quota_bytes):
        return None
    is_smaller = wanted < now.quota_bytes
    if is_smaller and (curve.distinct_blocks == 0 or _distinct_bytes(curve, rates) < now.resident_bytes):
        # The trace never filled the cache: what comes back after longer than the trace is not in it.
        return None
    old, new = rates.at(now.resident_bytes), rates.at(wanted * now.mean_ratio)
    figures: dict[str, Any] = {
        "quota_bytes": now.quota_bytes,
        "wanted_quota_bytes": wanted,
        "hit_rate": old,
        "wanted_hit_rate": new,
        "unlimited_hit_rate": rates.unlimited,
    }
    gain = None
    if money is not None:
        net = {
            name: _money_at(money, held)
            for name, held in (("", now.resident_bytes), ("wanted_", wanted * now.mean_ratio))
        }
        gain = net["wanted_"] - net[""]
        figures |= {
            "net_money_month": net[""],
            "wanted_net_money_month": net["wanted_"],
            "currency": money.cost.currency,
        }
        if gain < LEAST_MONEY_GAIN * _turnover(money, now.resident_bytes):
            return None
    elif (new - old < LEAST_GAIN) if not is_smaller else (old - new > MOST_LOSS):
        return None
    return Advice(
        AdviceKind.QUOTA,
        _quota_sentence(now, wanted, old, new, gain, money),
        figures,
        {"quota": {"capacity_bytes": wanted}},
    )


def _best_bytes(now: GroupNow, rates: HitRates, money: Roi | None) -> float | None:
    """The bytes to hold: where most money is left, else where larger caches gain a point at most."""
    if not len(rates.bytes):
        return None
    if money is not None:
        best = int(np.argmax(money.net_money_month))
        # No cache at all is no recommendation: that is a decision, not a setting.
        is_worth_it = money.net_money_month[best] > 0 and money.capacity_bytes[best] > 0
        return float(money.capacity_bytes[best]) if is_worth_it else None
    enough = np.flatnonzero(rates.rates >= rates.rates[-1] - LEAST_GAIN)
    return float(rates.bytes[enough[0]])


def _quota_sentence(
    now: GroupNow, wanted: int, old: float, new: float, gain: float | None, money: Roi | None
) -> str:
    verb = "Lower" if wanted < now.quota_bytes else "Raise"
    what = f"{verb} the quota of group {now.name} from {sized(now.quota_bytes)} to {sized(wanted)}:"
    moved = f"its hit rate goes from {old:.1%} to {new:.1%}"
    if gain is None or money is None:
        more = "" if wanted < now.quota_bytes else ", and more would gain less than a point"
        return f"{what} {moved}{more}."
    return (
        f"{what} {moved}, and {gain:,.0f} {money.cost.currency} a month more are left after storage is paid."
    )


def _distinct_bytes(curve: Curve, rates: HitRates) -> float:
    """All that the trace could have kept."""
    return float(curve.distinct_bytes) or float(rates.bytes[-1])


def _money_at(money: Roi, held: float) -> float:
    at = int(np.searchsorted(money.capacity_bytes, held, side="right")) - 1
    return 0.0 if at < 0 else float(money.net_money_month[at])


def _turnover(money: Roi, held: float) -> float:
    at = int(np.searchsorted(money.capacity_bytes, held, side="right")) - 1
    return 0.0 if at < 0 else float(money.saved_money_month[at] + money.storage_money_month[at])
