"""Which instances are not worth the room that they take from others."""

from __future__ import annotations

from kvcm_platform.optimizer.advice.reading import Advice, Curves, GroupNow, HitRates
from kvcm_platform.optimizer.advice_kinds import AdviceKind

POOR_HIT_RATE = 0.02
LEAST_SHARE = 0.05
"""Of what is written: an instance below does no harm worth a word."""
INSTANCES_AT_MOST = 20


def instance_advice(now: GroupNow, curves: Curves) -> list[Advice]:
    """Instances that find next to nothing and displace what others would find."""
    asked = {name: curve.blocks for name, curve in curves.by_instance.items()}
    rates = {
        name: HitRates(curve, curves.block_bytes).at(now.resident_bytes)
        for name, curve in curves.by_instance.items()
    }
    brought = {name: asked[name] * (1 - rates[name]) for name in asked}
    total = sum(brought.values())
    if len(asked) < 2 or not total:
        return []
    poor = [name for name in asked if rates[name] < POOR_HIT_RATE and brought[name] / total >= LEAST_SHARE]
    found = []
    for name in sorted(poor, key=lambda name: -brought[name])[:INSTANCES_AT_MOST]:
        share = brought[name] / total
        sentence = (
            f"Instance {name} is not worth its room in group {now.name}: it finds {rates[name]:.1%} of the"
            f" blocks that it asks for, and brings {share:.0%} of those that are written. Turn its cache off,"
            " or give it a group of its own."
        )
        figures = {"hit_rate": rates[name], "written_ratio": share, "blocks": asked[name]}
        found.append(Advice(AdviceKind.INSTANCE, sentence, figures, instance_id=name))
    return found
