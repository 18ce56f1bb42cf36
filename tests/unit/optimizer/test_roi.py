"""What a cache is worth, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.curve import Curve, Unit
from kvcm_platform.optimizer.roi import (
    GIB,
    PRESETS,
    CostModel,
    ModelCost,
    StorageTier,
    best_capacity,
    cost_from_json,
    cost_to_json,
    exact_best,
    rank,
    roi,
    roi_to_json,
    with_block_bytes,
)
from kvcm_platform.optimizer.trace import TraceInstance
from tests.support.optimizer_traces import Turn, trace_of

from .curves_by_hand import curve

MODEL = ModelCost("by hand", kv_bytes_per_token=1000, flops_per_token=50.0, flops_per_token_position=2.0)
MONTH_HOURS = 730.5


def costs(*tiers: StorageTier, **changes: object) -> CostModel:
    """50 FLOP a token and 2 more for every position, at 10 FLOP/s: 5 s a token and 0.2 s a position."""
    given = tiers or (StorageTier("disk", 1.0),)
    model = CostModel(model=MODEL, gpu_hour_price=3.0, effective_flops=10.0, tiers=given)
    return replace(model, **changes)  # type: ignore[arg-type]


def test_saved_seconds_weigh_each_token_by_its_position() -> None:
    worth = roi(curve([1], [10], positions=[4000.0], block_bytes=GIB), costs())

    assert worth.saved_seconds.tolist() == [5 * 100 + 0.2 * 4000]


def test_a_month_is_the_trace_over_and_over() -> None:
    # One hour of trace; 10 blocks of 10 tokens: 500 s, so 730.5 times that in a month.
    worth = roi(curve([2], [10], block_bytes=GIB), costs())

    assert worth.saved_gpu_hours_month[0] == pytest.approx(500 / 3600 * MONTH_HOURS)
    assert worth.saved_money_month[0] == pytest.approx(3.0 * 500 / 3600 * MONTH_HOURS)
    assert worth.storage_money_month[0] == pytest.approx(2.0)
    assert worth.net_money_month[0] == pytest.approx(3.0 * 500 / 3600 * MONTH_HOURS - 2.0)
    assert worth.break_even_price[0] == pytest.approx(3.0 * 500 / 3600 * MONTH_HOURS / 2)


def test_a_measured_rate_is_that_of_its_prompts() -> None:
    # 4 tokens cost 4 x 50 + 2 x (0 + 1 + 2 + 3) = 212 FLOP; at 2 tokens/s that took 2 s: 106 FLOP/s.
    cost = costs(prefill_tokens_per_second=2.0, measured_prompt_tokens=4)
    assert cost.prefill_seconds(4, 6) == pytest.approx(2.0)
    assert cost.seconds_per_token_position == pytest.approx(2 / 106)

    plain = costs(prefill_tokens_per_second=2.0)
    assert plain.prefill_seconds(4, 6) == pytest.approx(2.0)
    assert plain.prefill_seconds(4, 600) == pytest.approx(2.0)


def test_bandwidth_that_is_too_small_takes_hits_off() -> None:
    # 10 blocks of 1 GiB in 3,600 s are asked for.
    needed = 10 * GIB / 3600
    half = costs(StorageTier("slow", 0.0, bandwidth_bytes_per_second=needed / 2))
    worth = roi(curve([4], [10], block_bytes=GIB), half)

    assert worth.tiers[0].needed_bytes_per_second[0] == pytest.approx(needed)
    assert worth.tiers[0].delivered_ratio[0] == pytest.approx(0.5)
    assert worth.saved_money_month[0] == pytest.approx(3.0 * 250 / 3600 * MONTH_HOURS)
    # In the busiest time four times as much is asked for.
    busy = roi(curve([4], [10], block_bytes=GIB), replace(half, peak_ratio=4.0))
    assert busy.tiers[0].delivered_ratio[0] == pytest.approx(0.125)


def test_break_even_bandwidth_is_where_loading_takes_as_long_as_computing() -> None:
    # 500 s of one accelerator; four compute a prompt together, so the prompt waits 125 s for 10 GiB.
    worth = roi(curve([4], [10], block_bytes=GIB), costs(gpus_per_engine=4))
    assert worth.tiers[0].break_even_bytes_per_second[0] == pytest.approx(10 * GIB / 125)

    # 10 loads that wait 5 s each leave 75 s; 20 s each leave nothing.
    late = costs(StorageTier("far", 0.0, latency_seconds=5.0), gpus_per_engine=4)
    assert roi(curve([4], [10], block_bytes=GIB), late).tiers[0].break_even_bytes_per_second[
        0
    ] == pytest.approx(10 * GIB / 75)
    too_late = costs(StorageTier("far", 0.0, latency_seconds=20.0), gpus_per_engine=4)
    worth = roi(curve([4], [10], block_bytes=GIB), too_late)
    assert worth.tiers[0].break_even_bytes_per_second[0] == np.inf
    assert roi_to_json(worth)["tiers"][0]["break_even_bytes_per_second"] == [None]


def test_tiers_are_filled_in_order_and_share_the_hits() -> None:
    tiers = (StorageTier("memory", 4.0, capacity_bytes=2 * GIB), StorageTier("disk", 1.0))
    worth = roi(curve([1, 2, 5], [10, 30, 60], block_bytes=GIB), costs(*tiers))

    memory, disk = worth.tiers
    assert (memory.held_bytes / GIB).tolist() == [1, 2, 2]
    assert (disk.held_bytes / GIB).tolist() == [0, 0, 3]
    assert (memory.hit_bytes / GIB).tolist() == [10, 30, 30]
    assert (disk.hit_bytes / GIB).tolist() == [0, 0, 30]
    assert worth.storage_money_month.tolist() == [4, 8, 11]


def test_more_than_the_tiers_hold_is_worth_what_they_hold() -> None:
    worth = roi(
        curve([1, 2, 5], [10, 30, 60], block_bytes=GIB), costs(StorageTier("a", 1.0, capacity_bytes=2 * GIB))
    )

    assert worth.net_money_month[2] == worth.net_money_month[1]
    assert worth.storage_money_month[2] == 2.0


def test_best_capacity_is_found_among_all_points() -> None:
    # Saved a month: 500 / 3600 x 730.5 x 3 = 304.375 for 10 blocks.
    price = 10.0
    found = best_capacity(
        curve([10, 20, 40, 80], [10, 30, 40, 41], block_bytes=GIB), costs(StorageTier("disk", price))
    )
    values = {10: 304.375 - 100, 20: 3 * 304.375 - 200, 40: 4 * 304.375 - 400, 80: 4.1 * 304.375 - 800}

    assert max(values, key=lambda capacity: values[capacity]) == 40
    assert (found.capacity, found.index) == (40, 2)
    assert found.net_money_month == pytest.approx(values[40])
    assert found.break_even_price == pytest.approx(4 * 304.375 / 40)
    assert found.highest_price == pytest.approx(3 * 304.375 / 20)
    # No capacity between 20 and 40 can be better than 40's hits at 20's price.
    assert found.most_net_money_month == pytest.approx(4 * 304.375 - 200)


def test_best_capacity_equals_a_search_over_every_capacity() -> None:
    random = np.random.default_rng(7)
    for _ in range(200):
        steps = random.integers(0, 30, size=60)
        hits = np.cumsum(steps)
        price = float(random.uniform(0.1, 80.0))
        whole = curve(range(1, 61), hits.tolist(), blocks=4000, block_bytes=GIB)
        net = [3.0 * 50 * hit / 3600 * MONTH_HOURS - price * size for size, hit in enumerate(hits, start=1)]
        found = best_capacity(whole, costs(StorageTier("disk", price)))
        if max(net) <= 0:
            assert found.index == -1
            continue
        assert found.net_money_month == pytest.approx(max(net))
        assert found.most_net_money_month == pytest.approx(max(net))
        # Only the points where hits rise are needed.
        rises = [i for i in range(60) if steps[i]]
        few = curve([i + 1 for i in rises], [int(hits[i]) for i in rises], blocks=4000, block_bytes=GIB)
        assert best_capacity(few, costs(StorageTier("disk", price))).capacity == found.capacity


@pytest.mark.parametrize("bandwidth", [0.0, 0.4])
def test_the_best_of_all_capacities_is_found_from_few_points(bandwidth: float) -> None:
    random = np.random.default_rng(8)
    rounds = 0
    for _ in range(60):
        hits = np.cumsum(random.integers(0, 30, size=700))
        tier = StorageTier("disk", float(random.uniform(0.1, 40)), bandwidth * GIB)

        def compute(capacities: Sequence[int] | None, hits: Any = hits) -> Curve:
            nonlocal rounds
            rounds += 1
            points = capacities or [*range(100, 700, 100), 700]
            at = [int(hits[point - 1]) for point in points]
            return curve(points, at, blocks=40_000, block_bytes=GIB)

        _, found = exact_best(compute, costs(tier))
        every = best_capacity(compute(range(1, 701)), costs(tier))
        assert found.net_money_month == pytest.approx(every.net_money_month)
        if every.index >= 0:
            assert found.capacity == every.capacity
            assert found.most_net_money_month == pytest.approx(found.net_money_month)
    assert rounds < 60 * 5


def test_where_storage_is_too_dear_no_capacity_is_best() -> None:
    found = best_capacity(curve([10], [10], block_bytes=GIB), costs(StorageTier("disk", 31.0)))

    assert (found.index, found.net_money_month) == (-1, 0.0)
    assert found.highest_price == pytest.approx(30.4375)


def test_scenarios_are_ranked_by_what_is_left_and_say_why_not() -> None:
    cost = costs(StorageTier("disk", 20.0))
    ranked = rank(
        {
            "batch": curve([30], [10], block_bytes=GIB),
            "chat": curve([10], [40], block_bytes=GIB),
            "once": curve([10], [0], block_bytes=GIB),
        },
        cost,
    )

    assert [(found.name, found.is_worth) for found in ranked] == [
        ("chat", True),
        ("batch", False),
        ("once", False),
    ]
    assert ranked[0].net_money_month == pytest.approx(4 * 304.375 - 200)
    assert "10.15 USD a GiB-month" in ranked[1].reason
    assert "twice" in ranked[2].reason


def test_a_shared_cache_is_paid_by_distinct_bytes() -> None:
    curves = {
        "large": curve([100], [40], block_bytes=GIB, distinct_blocks=75),
        "small": curve([100], [30], block_bytes=GIB, distinct_blocks=25),
    }
    ranked = rank(curves, costs(StorageTier("disk", 20.0)), shared_capacity=100)

    assert [found.name for found in ranked] == ["small", "large"]
    assert [found.storage_money_month for found in ranked] == [500, 1500]
    assert [found.is_worth for found in ranked] == [True, False]


def test_parts_of_a_shared_cache_share_its_bandwidth() -> None:
    curves = {name: curve([100], [hits], block_bytes=GIB) for name, hits in (("a", 30), ("b", 60))}
    # 90 GiB in an hour are asked for and 60 of them delivered: two thirds of each one's hits.
    tier = StorageTier("disk", 0.0, bandwidth_bytes_per_second=60 * GIB / 3600)
    alone = rank(curves, costs(StorageTier("disk", 0.0)), shared_capacity=100)
    shared = rank(curves, costs(tier), shared_capacity=100)

    assert [found.name for found in shared] == ["b", "a"]
    for limited, free in zip(shared, alone, strict=True):
        assert limited.saved_money_month == pytest.approx(free.saved_money_month * 2 / 3)


def test_ttl_is_valued_by_what_it_holds_on_average() -> None:
    ttl = curve([60_000_000], [10], block_bytes=GIB, policy="ttl", series={"mean_resident": [7.5]})
    assert (roi(ttl, costs()).capacity_bytes / GIB).tolist() == [7.5]
    with pytest.raises(DomainError, match="mean_resident"):
        roi(curve([60_000_000], [10], block_bytes=GIB, policy="ttl"), costs())


def test_capacities_in_bytes_are_taken_as_they_are() -> None:
    worth = roi(curve([3 * GIB], [10], block_bytes=GIB, unit=Unit.BYTES), costs())
    assert (worth.capacity_bytes / GIB).tolist() == [3]


def test_blocks_of_unknown_size_need_one() -> None:
    with pytest.raises(DomainError) as refused:
        roi(curve([1], [1]), costs())
    assert refused.value.field == "block_bytes"
    assert (roi(curve([2], [1]), costs(), block_bytes=GIB).capacity_bytes / GIB).tolist() == [2]


def test_a_trace_without_time_is_refused() -> None:
    with pytest.raises(DomainError, match="month"):
        roi(curve([1], [1], block_bytes=1, span_us=0), costs())


def test_cost_model_from_json_takes_presets_and_free_entry() -> None:
    cost = cost_from_json(
        {"model": "qwen3-8b", "gpu_hour_price": 4, "tiers": [{"name": "d", "price_per_gib_month": 1}]}
    )
    assert (cost.model, cost.gpu_hour_price) == (PRESETS["qwen3-8b"], 4)
    assert cost_from_json(cost_to_json(cost)) == cost

    halved = cost_from_json({"model": {"preset": "qwen3-8b", "kv_bytes_per_token": 73_728}})
    assert halved.model.kv_bytes_per_token == 73_728
    assert halved.model.flops_per_token == PRESETS["qwen3-8b"].flops_per_token


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "model"),
        ({"model": "gpt-0"}, "model"),
        ({"model": {"name": "x"}}, "kv_bytes_per_token"),
        ({"model": "qwen3-8b", "colour": 1}, "colour"),
        ({"model": "qwen3-8b", "gpu_hour_price": -1}, "gpu_hour_price"),
        ({"model": "qwen3-8b", "gpu_hour_price": "2"}, "gpu_hour_price"),
        ({"model": "qwen3-8b", "gpu_hour_price": True}, "gpu_hour_price"),
        ({"model": "qwen3-8b", "gpu_hour_price": float("nan")}, "gpu_hour_price"),
        ({"model": "qwen3-8b", "effective_flops": 0}, "effective_flops"),
        ({"model": "qwen3-8b", "gpus_per_engine": 0}, "gpus_per_engine"),
        ({"model": "qwen3-8b", "gpus_per_engine": 1.5}, "gpus_per_engine"),
        ({"model": "qwen3-8b", "peak_ratio": 0.5}, "peak_ratio"),
        ({"model": "qwen3-8b", "tiers": []}, "tiers"),
        ({"model": "qwen3-8b", "tiers": [{"name": "d"}]}, "price_per_gib_month"),
        ({"model": "qwen3-8b", "tiers": [{"name": "d", "price_per_gib_month": -2}]}, "price_per_gib_month"),
        (
            {
                "model": "qwen3-8b",
                "tiers": [{"name": "a", "price_per_gib_month": 1}, {"name": "b", "price_per_gib_month": 1}],
            },
            "capacity_bytes",
        ),
        ({"model": "qwen3-8b", "currency": "doubloons"}, "currency"),
        ({"model": "qwen3-8b", "peak_ratio": 1e308}, "peak_ratio"),
        ({"model": "qwen3-8b", "gpu_hour_price": 1e308}, "gpu_hour_price"),
        ({"model": "qwen3-8b", "effective_flops": 1e-308}, "effective_flops"),
        ({"model": "qwen3-8b", "prefill_tokens_per_second": 1e-320}, "prefill_tokens_per_second"),
        ({"model": {"preset": "qwen3-8b", "kv_bytes_per_token": 1e300}}, "kv_bytes_per_token"),
    ],
)
def test_impossible_cost_models_name_the_member(data: dict[str, object], field: str) -> None:
    with pytest.raises(DomainError) as refused:
        cost_from_json(data)
    assert refused.value.field == field


def test_a_model_whose_blocks_are_larger_than_any_is_refused() -> None:
    cost = cost_from_json({"model": {"preset": "qwen3-8b", "kv_bytes_per_token": 1e20}})
    trace = trace_of([Turn([1])], (TraceInstance("i0", 16),))
    with pytest.raises(DomainError) as refused:
        with_block_bytes(trace, cost.model)
    assert refused.value.field == "kv_bytes_per_token"


def test_the_bound_holds_where_tiers_are_full_between_two_points() -> None:
    """A curve with few points does not say what fits into a tier: up to the point above it may be."""
    dear = costs(StorageTier("a", 1.0, capacity_bytes=20 * GIB))
    found = best_capacity(curve([41, 49], [30, 40], block_bytes=GIB), dear)
    assert found.most_net_money_month >= 3 * 304.375 - 20
    beside = costs(StorageTier("a", 1e6, capacity_bytes=5 * GIB), StorageTier("b", 0.0))
    found = best_capacity(curve([1, 40], [10, 40], block_bytes=GIB), beside)
    assert found.most_net_money_month >= 4 * 304.375 - 5e6


@pytest.mark.parametrize("seed", range(60))
def test_the_best_of_all_capacities_is_that_of_every_capacity_whatever_tiers_hold(seed: int) -> None:
    chance = np.random.default_rng(seed)
    hits = np.cumsum(chance.integers(0, 5, size=60)).tolist()

    def compute(capacities: Sequence[int] | None) -> Curve:
        wanted = [1, int(chance.integers(2, 60)), 60] if capacities is None else capacities
        return curve(wanted, [hits[size - 1] for size in wanted], blocks=400, block_bytes=GIB)

    tiers = [
        StorageTier(
            name,
            float(chance.choice([0.1, 30, 300])),
            bandwidth_bytes_per_second=float(chance.choice([0, 1e6, 1e7])),
            capacity_bytes=int(chance.integers(1, 40 * GIB)),
        )
        for name in "abc"[: chance.integers(1, 4)]
    ]
    every = best_capacity(compute(range(1, 61)), costs(*tiers))
    _, found = exact_best(compute, costs(*tiers))
    assert found.net_money_month == pytest.approx(every.net_money_month)
    assert found.most_net_money_month >= every.net_money_month * (1 - 1e-9)
