"""What a run says about the settings of an instance group: one file a kind of advice. Pure."""

from __future__ import annotations

from kvcm_platform.optimizer.advice.instances import instance_advice
from kvcm_platform.optimizer.advice.quota import quota_advice
from kvcm_platform.optimizer.advice.reading import Advice, Curves, GroupNow, HitRates
from kvcm_platform.optimizer.advice.settings import policy_advice, watermark_advice
from kvcm_platform.optimizer.advice.tiers import tiers_advice
from kvcm_platform.optimizer.roi import CostModel, roi

__all__ = ["Advice", "Curves", "GroupNow", "HitRates", "advise"]


def advise(now: GroupNow, curves: Curves, cost: CostModel | None) -> list[Advice]:
    """What to change about a group, the most worthwhile kinds first; without cost model money is left out.

    Raises DomainError where the trace does not say how large blocks are, or has no extent in time.
    """
    lru = curves.by_policy["lru"]
    rates = HitRates(lru, curves.block_bytes)
    money = None if cost is None else roi(lru, cost, block_bytes=curves.block_bytes)
    found = [
        quota_advice(now, lru, rates, money),
        watermark_advice(now, rates),
        policy_advice(now, curves),
        None if cost is None else tiers_advice(now, lru, rates, cost),
        *instance_advice(now, curves, cost),
    ]
    return [one for one in found if one is not None]
