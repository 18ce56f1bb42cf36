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
from kvcm_platform.optimizer.roi import Roi, best_of
from kvcm_platform.optimizer.savings import storage_price

MOST_LOSS = 0.005
"""Of the hit rate, that a smaller quota may cost where nobody said what hits are worth."""
_ROUNDING = 1e-9


def quota_advice(now: GroupNow, curve: Curve, rates: HitRates, money: Roi | None) -> Advice | None:
    """Another quota, where it differs and gains enough to be worth it; `money` is `roi` of the curve."""
    best = _best_bytes(now, curve, rates, money)
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
            name: _net_at(money, held)
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
    elif not is_smaller and new - old < LEAST_GAIN - _ROUNDING:
        return None
    return Advice(
        AdviceKind.QUOTA,
        _quota_sentence(now, wanted, old, new, gain, money) + _limits_sentence(now, wanted),
        figures,
        {"quota": {"capacity_bytes": wanted}},
    )


def _best_bytes(now: GroupNow, curve: Curve, rates: HitRates, money: Roi | None) -> float | None:
    """The bytes to hold: where most money is left.

    Without money: where larger ones gain a point at most; where the group is beyond that, as little as
    hits about as much as it does.
    """
    if not len(rates.bytes):
        return None
    if money is not None:
        best = best_of(curve, money)
        # No cache at all is no recommendation: that is a decision, not a setting.
        return best.capacity_bytes if best.index >= 0 and best.capacity_bytes > 0 else None
    enough = _least_bytes(rates, float(rates.rates[-1]) - LEAST_GAIN)
    if enough > now.resident_bytes:
        return enough
    return _least_bytes(rates, rates.at(now.resident_bytes) - MOST_LOSS)


def _least_bytes(rates: HitRates, rate: float) -> float:
    """The smallest capacity with that hit rate; there is one."""
    return float(rates.bytes[np.flatnonzero(rates.rates >= rate - _ROUNDING)[0]])


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


def _limits_sentence(now: GroupNow, wanted: int) -> str:
    """A quota above the limits of storage types is reached only where another type has room."""
    limits = sum(now.per_type.values())
    if not now.per_type or wanted <= max(limits, now.quota_bytes):
        return ""
    return f" Its limits by storage type are {sized(limits)} together: raise them, too."


def _distinct_bytes(curve: Curve, rates: HitRates) -> float:
    """All that the trace could have kept."""
    return float(curve.distinct_bytes) or float(rates.bytes[-1])


def _saved_at(money: Roi, held: float) -> float:
    at = int(np.searchsorted(money.capacity_bytes, held, side="right")) - 1
    return 0.0 if at < 0 else float(money.saved_money_month[at])


def _net_at(money: Roi, held: float) -> float:
    """A cache that is larger than all that the trace has is paid for all the same."""
    return _saved_at(money, held) - storage_price(held, money.cost)


def _turnover(money: Roi, held: float) -> float:
    return _saved_at(money, held) + storage_price(held, money.cost)
