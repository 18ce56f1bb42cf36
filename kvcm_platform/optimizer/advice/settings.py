"""At which marks a group should begin and end to reclaim, and by which policy."""

from __future__ import annotations

import math

from kvcm_platform.core.capacity import Watermarks
from kvcm_platform.core.sizes import sized
from kvcm_platform.optimizer.advice.reading import (
    LEAST_GAIN,
    Advice,
    Curves,
    GroupNow,
    HitRates,
    mean_ratio,
)
from kvcm_platform.optimizer.advice_kinds import AdviceKind

LEAST_WATERMARK_GAIN = 0.005
RECLAIM_SECONDS = 10.0
"""Headroom above the high mark: what is written while reclaim gets going (DESIGN 6: 1.6 s), and more."""
MOST_HIGH = 0.97
LEAST_HEADROOM = 0.02


def watermark_advice(now: GroupNow, rates: HitRates) -> Advice | None:
    """Marks that leave the room that writes need until reclaim acts; None where the rate is not known."""
    if not now.peak_written_bytes_per_second or not now.quota_bytes or now.high_ratio > 1:
        return None
    need = now.peak_written_bytes_per_second * (RECLAIM_SECONDS + now.delay_seconds) / now.quota_bytes
    high = math.floor(100 * min(MOST_HIGH, 1 - max(LEAST_HEADROOM, need))) / 100
    if high < 0.5:
        # A quota that seconds of writes fill is too small for marks to help.
        return None
    low = round(Watermarks.of(high, None).low, 3)
    old, new = rates.at(now.resident_bytes), rates.at(now.quota_bytes * mean_ratio(high, low))
    is_tight = now.high_ratio - high >= 0.01
    if not is_tight and (new - old < LEAST_WATERMARK_GAIN or high <= now.high_ratio):
        return None
    text = f"{sized(round(now.peak_written_bytes_per_second))} a second were written at most"
    if is_tight:
        sentence = (
            f"Lower the high watermark of group {now.name} from {now.high_ratio:.0%} to {high:.0%}: {text},"
            " and reclaim needs that room before writes are refused."
        )
    else:
        sentence = (
            f"Raise the watermarks of group {now.name} to {high:.0%} and {low:.1%}: {text}, which leaves"
            f" reclaim room enough, and the hit rate goes from {old:.1%} to {new:.1%}."
        )
    figures = {
        "high_ratio": now.high_ratio,
        "low_ratio": now.low_ratio,
        "wanted_high_ratio": high,
        "wanted_low_ratio": low,
        "hit_rate": old,
        "wanted_hit_rate": new,
        "peak_written_bytes_per_second": now.peak_written_bytes_per_second,
    }
    changes = {"reclaim": {"used_ratio": high, "low_watermark_ratio": low}}
    return Advice(AdviceKind.WATERMARK, sentence, figures, changes)


def policy_advice(now: GroupNow, curves: Curves) -> Advice | None:
    """The policy that hits most at what the group holds, where it gains LEAST_GAIN over the present one."""
    # TTL under pressure takes what was not used for longest: it is LRU.
    present = now.policy if now.policy in curves.by_policy else "lru"
    found = {
        policy: HitRates(curve, curves.block_bytes).at(now.resident_bytes)
        for policy, curve in curves.by_policy.items()
    }
    best = max(found, key=lambda policy: (found[policy], policy == present))
    if found[best] - found[present] < LEAST_GAIN:
        return None
    sentence = (
        f"Let group {now.name} reclaim by {best.upper()} instead of {now.policy.upper()}: at its capacity"
        f" that hits {found[best]:.1%} instead of {found[present]:.1%}."
    )
    figures = {"policy": now.policy, "wanted_policy": best, "hit_rates": found}
    return Advice(AdviceKind.POLICY, sentence, figures, {"reclaim": {"policy": best}})
