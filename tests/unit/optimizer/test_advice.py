"""What curves say about the settings of a group; every expected figure is worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kvcm_platform.optimizer.advice import Curves, GroupNow, advise
from kvcm_platform.optimizer.advice.reading import HitRates, rounded_up
from kvcm_platform.optimizer.advice_kinds import AdviceKind
from kvcm_platform.optimizer.curve import Curve, Definition, Unit
from kvcm_platform.optimizer.roi import MONTH_SECONDS, CostModel, ModelCost, StorageTier

GIB = 1 << 30
BLOCKS = 1000
BLOCK_TOKENS = 100
MONTH_US = round(MONTH_SECONDS * 1e6)
"""The trace is a month long, so that what it saves is what a month saves."""


def curve(hits: dict[int, int], policy: str = "lru", blocks: int = BLOCKS, distinct_gib: int = 100) -> Curve:
    """Of blocks hit by GiB held."""
    found = np.asarray(list(hits.values()), dtype=np.int64)
    return Curve(
        definition=Definition(policy, unit=Unit.BYTES),
        capacities=np.asarray([size * GIB for size in hits], dtype=np.int64),
        hit_blocks=found,
        hit_tokens=found * BLOCK_TOKENS,
        hit_bytes=found * GIB,
        hit_token_positions=np.zeros(len(found)),
        full_hit_requests=found,
        requests=blocks,
        blocks=blocks,
        tokens=blocks * BLOCK_TOKENS,
        bytes=blocks * GIB,
        distinct_blocks=distinct_gib,
        distinct_bytes=distinct_gib * GIB,
        unlimited_hit_blocks=int(found[-1]),
        unlimited_hit_tokens=int(found[-1]) * BLOCK_TOKENS,
        span_us=MONTH_US,
    )


def cost(price: float, *tiers: StorageTier) -> CostModel:
    """A second of computing costs 1, and a token takes one: a block hit is worth 100."""
    model = ModelCost("hand", 1.0, 1e12, 0.0)
    return CostModel(
        model,
        gpu_hour_price=3600.0,
        effective_flops=1e12,
        tiers=tiers or (StorageTier("disk", price),),
        currency="EUR",
    )


def group(quota_gib: float = 20, high: float = 1.0, low: float = 1.0, **members: object) -> GroupNow:
    return GroupNow("chat", round(quota_gib * GIB), high, low, **members)


def found(now: GroupNow, curves: Curves, model: CostModel | None = None) -> dict[AdviceKind, object]:
    return {one.kind: one for one in advise(now, curves, model)}


def test_quota_goes_to_where_most_money_is_left() -> None:
    """Hits are worth 100 each and a GiB costs 150: 10 GiB leave 8,500, 20 10,000, 40 12,000, 80 9,000."""
    lru = curve({10: 100, 20: 130, 40: 180, 80: 210})
    one = found(group(20), Curves({"lru": lru}), cost(150))[AdviceKind.QUOTA]
    assert one.changes == {"quota": {"capacity_bytes": 40 * GIB}}
    assert (one.figures["hit_rate"], one.figures["wanted_hit_rate"]) == (0.13, 0.18)
    assert one.figures["net_money_month"] == pytest.approx(10_000)
    assert one.figures["wanted_net_money_month"] == pytest.approx(12_000)
    assert one.sentence == (
        "Raise the quota of group chat from 20 GiB to 40 GiB: its hit rate goes from 13.0% to 18.0%, and"
        " 2,000 EUR a month more are left after storage is paid."
    )
    # At 40 GiB there is nothing to say, and at 80 it says to give some back.
    assert AdviceKind.QUOTA not in found(group(40), Curves({"lru": lru}), cost(150))
    lower = found(group(80), Curves({"lru": lru}), cost(150))[AdviceKind.QUOTA]
    assert lower.changes == {"quota": {"capacity_bytes": 40 * GIB}}
    assert lower.sentence.startswith("Lower the quota of group chat from 80 GiB to 40 GiB:")


def test_a_quota_above_the_limits_by_type_says_that_they_hold_it_back() -> None:
    lru = curve({10: 100, 20: 130, 40: 180, 80: 210})
    told = {}
    for nfs in (5, 15, 30):
        now = group(20, per_type={"tair_mempool": 10 * GIB, "nfs": nfs * GIB})
        told[nfs] = found(now, Curves({"lru": lru}), cost(150))[AdviceKind.QUOTA].sentence
    assert told[5].endswith(" Its limits by storage type are 15 GiB together: raise them, too.")
    assert "25 GiB together" in told[15] and "together" not in told[30]


def test_quota_is_what_marks_leave_of_it() -> None:
    """Between marks of 90 % and 70 % a quota holds 80 %: for 40 GiB it has to be 50."""
    lru = curve({10: 100, 20: 130, 40: 180, 80: 210})
    one = found(group(25, 0.9, 0.7), Curves({"lru": lru}), cost(150))[AdviceKind.QUOTA]
    assert one.changes == {"quota": {"capacity_bytes": 50 * GIB}}
    assert one.figures["hit_rate"] == 0.13


def test_a_trace_that_never_filled_the_cache_lowers_no_quota() -> None:
    hits = {1: 50, 2: 60, 3: 61}
    assert AdviceKind.QUOTA in found(group(80), Curves({"lru": curve(hits)}), cost(150))
    short = curve(hits, distinct_gib=3)
    assert AdviceKind.QUOTA not in found(group(80), Curves({"lru": short}), cost(150))


def test_storage_that_costs_more_than_hits_are_worth_is_no_advice() -> None:
    lru = curve({10: 1, 20: 2})
    assert AdviceKind.QUOTA not in found(group(20), Curves({"lru": lru}), cost(150))


def test_without_cost_model_the_quota_goes_to_within_a_point_of_the_most() -> None:
    lru = curve({10: 100, 20: 150, 40: 195, 80: 200})
    one = found(group(20), Curves({"lru": lru}))[AdviceKind.QUOTA]
    assert one.changes == {"quota": {"capacity_bytes": 40 * GIB}}
    assert "currency" not in one.figures and "more would gain less than a point" in one.sentence
    # 5 of 1000 blocks fewer is what a smaller one may cost, and no more.
    assert found(group(80), Curves({"lru": lru}))[AdviceKind.QUOTA].changes == one.changes
    dear = curve({10: 100, 20: 150, 40: 194, 80: 200})
    assert AdviceKind.QUOTA not in found(group(80), Curves({"lru": dear}))


def test_marks_leave_room_for_what_is_written_while_reclaim_gets_going() -> None:
    """0.1 GiB a second for 11 s are 1.1 GiB of 20: the high mark may be at 94 %, the low one at 89 %."""
    lru = curve({8: 100, 18: 130, 40: 131})
    peak = 0.1 * GIB
    now = group(20, 0.5, 0.4, peak_written_bytes_per_second=peak)
    one = found(now, Curves({"lru": lru}))[AdviceKind.WATERMARK]
    assert one.changes == {"reclaim": {"used_ratio": 0.94, "low_watermark_ratio": 0.89}}
    assert (one.figures["hit_rate"], one.figures["wanted_hit_rate"]) == (0.1, 0.13)
    tight = found(group(20, 0.99, 0.95, peak_written_bytes_per_second=peak), Curves({"lru": lru}))
    assert tight[AdviceKind.WATERMARK].sentence.startswith(
        "Lower the high watermark of group chat from 99% to 94%"
    )
    fitting = group(20, 0.94, 0.89, peak_written_bytes_per_second=peak)
    assert AdviceKind.WATERMARK not in found(fitting, Curves({"lru": lru}))
    # Nobody knows what is written, or seconds of it fill the quota: marks are no answer.
    assert AdviceKind.WATERMARK not in found(group(20, 0.5, 0.4), Curves({"lru": lru}))
    flooded = group(20, 0.5, 0.4, peak_written_bytes_per_second=GIB)
    assert AdviceKind.WATERMARK not in found(flooded, Curves({"lru": lru}))


def test_policy_that_hits_more_at_the_capacity_of_today() -> None:
    lru, lfu = curve({20: 100, 40: 200}), curve({20: 120, 40: 150}, "lfu")
    curves = Curves({"lru": lru, "lfu": lfu})
    one = found(group(20), curves)[AdviceKind.POLICY]
    assert one.changes == {"reclaim": {"policy": "lfu"}}
    assert one.figures["hit_rates"] == {"lru": 0.1, "lfu": 0.12}
    assert AdviceKind.POLICY not in found(group(20, policy="lfu"), curves)
    assert found(group(40, policy="lfu"), curves)[AdviceKind.POLICY].changes == {"reclaim": {"policy": "lru"}}
    # TTL takes what was not used for longest, as LRU does.
    assert found(group(20, policy="ttl"), curves)[AdviceKind.POLICY].changes == {"reclaim": {"policy": "lfu"}}
    assert AdviceKind.POLICY not in found(group(40, policy="ttl"), curves)


def test_tiers_are_split_where_room_and_waiting_cost_least() -> None:
    """Of 40 GiB in all, 180 GiB are hit. A hit from memory waits 0.01 s a GiB, from disk 1 s, which costs 1.

    Memory of 0 / 10 / 20 / 40 GiB costs 3 more a GiB: 0 + 180; 30 + 1 + 80; 60 + 1.3 + 50; 120 + 1.8 + 0.
    So ten are best, at 111 (and 20 at 111.3 is as good as it).
    """
    lru = curve({10: 100, 20: 130, 40: 180})
    fast = StorageTier("memory", 4.0, bandwidth_bytes_per_second=100 * GIB, capacity_bytes=10 * GIB)
    slow = StorageTier("disk", 1.0, bandwidth_bytes_per_second=GIB)
    now = group(40, per_type={"tair_mempool": 30 * GIB, "nfs": 10 * GIB})
    one = found(now, Curves({"lru": lru}), cost(0, fast, slow))[AdviceKind.TIERS]
    assert one.changes == {"quota": {"per_type": {"tair_mempool": 10 * GIB, "nfs": 30 * GIB}}}
    assert one.figures["first_hit_ratio"] == pytest.approx(100 / 180)
    # 30 GiB of memory hit what 20 hit: 90 + 1.3 + 50, against 30 + 1 + 80.
    assert one.figures["saved_money_month"] == pytest.approx(141.3 - 111)
    best = group(40, per_type={"tair_mempool": 10 * GIB, "nfs": 30 * GIB})
    assert AdviceKind.TIERS not in found(best, Curves({"lru": lru}), cost(0, fast, slow))
    assert AdviceKind.TIERS not in found(now, Curves({"lru": lru}), cost(1))


def test_instances_that_find_nothing_and_displace_others() -> None:
    lru = curve({20: 410})
    by_instance = {
        "good": curve({20: 400}, blocks=500),
        "crawler": curve({20: 5}, blocks=400),
        "small": curve({20: 0}, blocks=10),
        "poor": curve({20: 5}, blocks=90),
    }
    told = [one for one in advise(group(20), Curves({"lru": lru}, by_instance), None) if one.instance_id]
    # Of 590 written blocks: 395 are the crawler's, 85 poor's (5.6 % hit), and 10 too few for a word.
    assert [(one.instance_id, one.changes) for one in told] == [("crawler", None)]
    assert told[0].figures["written_ratio"] == pytest.approx(395 / 590)
    assert "brings 67% of those that are written" in told[0].sentence
    alone = Curves({"lru": lru}, {"crawler": by_instance["crawler"]})
    assert not [one for one in advise(group(20), alone, None) if one.instance_id]


def test_rates_are_never_above_what_is_reached() -> None:
    rates = HitRates(curve({10: 100, 20: 200}))
    assert [rates.at(size * GIB) for size in (9.9, 10, 19.9, 20, 999)] == [0.0, 0.1, 0.1, 0.2, 0.2]


@pytest.mark.parametrize(
    ("size", "rounded"), [(0, 0), (5.2, 6), (64, 64), (129, 130), (1000.5, 1008), (40 * GIB, 40 * GIB)]
)
def test_quotas_are_rounded_up_to_figures_that_can_be_read(size: float, rounded: int) -> None:
    assert rounded_up(size) == rounded
