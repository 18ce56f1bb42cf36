"""Which instances are not worth the room that they take from others."""

from __future__ import annotations

from kvcm_platform.optimizer.advice.reading import Advice, Curves, GroupNow, HitRates
from kvcm_platform.optimizer.advice_kinds import AdviceKind
from kvcm_platform.optimizer.roi import CostModel, Scenario, rank

POOR_HIT_RATE = 0.02
LEAST_SHARE = 0.05
"""Of what is written: an instance below does no harm worth a word."""
INSTANCES_AT_MOST = 20


def instance_advice(now: GroupNow, curves: Curves, cost: CostModel | None) -> list[Advice]:
    """Instances that find next to nothing, or spare less than their part of the cache costs, and that
    displace what others would find; those that bring most first.
    """
    asked = {name: curve.blocks for name, curve in curves.by_instance.items()}
    rates = {
        name: HitRates(curve, curves.block_bytes).at(now.resident_bytes)
        for name, curve in curves.by_instance.items()
    }
    brought = {name: asked[name] * (1 - rates[name]) for name in asked}
    total = sum(brought.values())
    if len(asked) < 2 or not total:
        return []
    worth = {} if cost is None else _worth(now, curves, cost)
    poor = [
        name
        for name in asked
        if brought[name] / total >= LEAST_SHARE
        and (rates[name] < POOR_HIT_RATE or (name in worth and not worth[name].is_worth))
    ]
    return [
        _one(now, name, rates[name], brought[name] / total, worth.get(name), cost)
        for name in sorted(poor, key=lambda name: (-brought[name], name))[:INSTANCES_AT_MOST]
    ]


def _worth(now: GroupNow, curves: Curves, cost: CostModel) -> dict[str, Scenario]:
    """Each at the capacity that all of them share."""
    lru = HitRates(curves.by_policy["lru"], curves.block_bytes)
    place = lru.place(now.resident_bytes)
    if place is None:
        return {}
    shared = int(curves.by_policy["lru"].capacities[place])
    found = rank(curves.by_instance, cost, shared_capacity=shared, block_bytes=curves.block_bytes)
    return {scenario.name: scenario for scenario in found}


def _one(
    now: GroupNow, name: str, rate: float, share: float, worth: Scenario | None, cost: CostModel | None
) -> Advice:
    money = ""
    figures: dict[str, object] = {"hit_rate": rate, "written_ratio": share}
    if worth is not None and cost is not None:
        money = f" A month, that leaves {worth.net_money_month:,.0f} {cost.currency} after storage."
        figures |= {"net_money_month": worth.net_money_month, "currency": cost.currency}
    sentence = (
        f"Instance {name} is not worth its room in group {now.name}: it finds {rate:.1%} of the blocks that"
        f" it asks for, and brings {share:.0%} of those that are written.{money}"
        " Turn its cache off, or give it a group of its own."
    )
    return Advice(AdviceKind.INSTANCE, sentence, figures, instance_id=name)
