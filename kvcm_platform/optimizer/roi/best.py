"""The capacity that is worth most, and which scenarios are worth a cache at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kvcm_platform.core.errors import invalid

from ..answers.shape import index_at
from ..curve import Curve, Float64
from .benefit import Roi, roi
from .cost import GIB, CostModel


@dataclass(frozen=True, slots=True)
class BestCapacity:
    """`index` is the position in the curve, -1 where no capacity saves what it costs (then all is 0).

    `most_net_money_month` bounds from above what any capacity could be worth, also
    one between two points of the curve: hits of the point above it at the price of the point below it.
    """

    index: int
    capacity: int
    """In the unit of the curve."""
    capacity_bytes: float
    hit_rate: float
    saved_money_month: float
    storage_money_month: float
    net_money_month: float
    most_net_money_month: float
    break_even_price: float
    """Of a GiB-month, up to which this capacity pays."""
    highest_price: float
    """Of a GiB-month, over which no capacity pays."""


def best_capacity(curve: Curve, cost: CostModel, *, block_bytes: float | None = None) -> BestCapacity:
    """The argmax of money saved minus storage paid over the points of the curve, the smallest of equals.

    Hits are a step function of the capacity and storage only becomes dearer between two steps, so the best of
    all capacities is a breakpoint: exact where the curve holds them all. Raises as `roi`.
    """
    return best_of(curve, roi(curve, cost, block_bytes=block_bytes))


def best_of(curve: Curve, worth: Roi) -> BestCapacity:
    """`best_capacity` of a curve whose `roi` is known."""
    net = worth.net_money_month
    if not len(net):
        raise invalid("capacities", "the curve has no point")
    most = max(0.0, float(np.max(net_bound(curve, worth))))
    index = int(np.argmax(net))
    highest = float(np.max(worth.break_even_price))
    if net[index] <= 0:
        return BestCapacity(-1, 0, 0.0, 0.0, 0.0, 0.0, 0.0, most, 0.0, highest)
    return BestCapacity(
        index=index,
        capacity=int(curve.capacities[index]),
        capacity_bytes=float(worth.capacity_bytes[index]),
        hit_rate=float(worth.hit_rate[index]),
        saved_money_month=float(worth.saved_money_month[index]),
        storage_money_month=float(worth.storage_money_month[index]),
        net_money_month=float(net[index]),
        most_net_money_month=most,
        break_even_price=float(worth.break_even_price[index]),
        highest_price=highest,
    )


def net_bound(curve: Curve, worth: Roi) -> Float64:
    """What no capacity over that of the point before and up to each point can be worth more than.

    Hits of the point at the least storage above the point before; where nothing lies between the two, its
    own.
    """
    before = np.concatenate([[0.0], worth.storage_money_month[:-1]])
    has_more = np.diff(curve.capacities, prepend=0) > 1
    return worth.most_saved_money_month - np.where(has_more, before, worth.storage_money_month)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a cache is worth for one instance or one type of requests, at one capacity of its own or of a
    shared cache."""

    name: str
    requests: int
    asked_tokens: int
    capacity_bytes: float
    """Held for it: its best capacity, or its part of the shared one."""
    hit_rate: float
    saved_gpu_hours_month: float
    saved_money_month: float
    storage_money_month: float
    net_money_month: float
    money_per_gib_month: float
    """Saved for each GiB held for it."""
    is_worth: bool
    reason: str


def rank(
    curves: Mapping[str, Curve],
    cost: CostModel,
    *,
    shared_capacity: int | None = None,
    block_bytes: float | None = None,
) -> list[Scenario]:
    """The scenarios by what they are worth a month, the best first; which of them a cache should be enabled
    for.

    `shared_capacity` None: every curve is that of a cache of its own and is valued at its best capacity. Else
    the curves are parts of one cache of that capacity (in their unit; the largest point within it counts),
    and what it costs is laid on them by their distinct bytes, as far as they fit. Raises as `roi`.
    """
    if shared_capacity is None:
        found = [_alone(name, curve, cost, block_bytes) for name, curve in curves.items()]
    else:
        found = _shared(curves, cost, shared_capacity, block_bytes)
    return sorted(found, key=lambda scenario: (-scenario.net_money_month, scenario.name))


def _alone(name: str, curve: Curve, cost: CostModel, block_bytes: float | None) -> Scenario:
    if not curve.span_us:
        return _unknown(name, curve)
    worth = roi(curve, cost, block_bytes=block_bytes)
    best = best_of(curve, worth)
    if best.index < 0:
        reason = (
            "nothing is asked for twice"
            if not curve.unlimited_hit_blocks
            else f"storage would have to cost less than {best.highest_price:,.2f} {cost.currency} a GiB-month"
        )
        return Scenario(name, curve.requests, curve.tokens, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, reason)
    hours = float(worth.saved_gpu_hours_month[best.index])
    return _scenario(name, curve, cost, best.capacity_bytes, best.hit_rate, hours, best.storage_money_month)


def _shared(
    curves: Mapping[str, Curve], cost: CostModel, capacity: int, block_bytes: float | None
) -> list[Scenario]:
    total = sum(max(1, curve.distinct_bytes or curve.distinct_blocks) for curve in curves.values())
    shares = _bandwidth_shares(curves, cost, capacity, block_bytes)
    found = []
    for name, curve in curves.items():
        index = index_at(curve, capacity)
        if not curve.span_us:
            found.append(_unknown(name, curve))
            continue
        if index < 0:
            found.append(_scenario(name, curve, cost, 0.0, 0.0, 0.0, 0.0))
            continue
        part = max(1, curve.distinct_bytes or curve.distinct_blocks) / total
        worth = roi(curve, _with_bandwidths(cost, shares[name]), block_bytes=block_bytes)
        found.append(
            _scenario(
                name,
                curve,
                cost,
                float(worth.capacity_bytes[index]) * part,
                float(worth.hit_rate[index]),
                float(worth.saved_gpu_hours_month[index]),
                float(worth.storage_money_month[index]) * part,
            )
        )
    return found


def _bandwidth_shares(
    curves: Mapping[str, Curve], cost: CostModel, capacity: int, block_bytes: float | None
) -> dict[str, Float64]:
    """By part, of each tier's bandwidth: as its hits are of all hits there."""
    needed = {}
    for name, curve in curves.items():
        index = index_at(curve, capacity)
        needed[name] = np.zeros(len(cost.tiers))
        if curve.span_us and index >= 0:
            tiers = roi(curve, cost, block_bytes=block_bytes).tiers
            needed[name] = np.array([share.needed_bytes_per_second[index] for share in tiers])
    total = np.maximum(1e-300, sum(needed.values(), np.zeros(len(cost.tiers))))
    return {name: one / total for name, one in needed.items()}


def _with_bandwidths(cost: CostModel, shares: Float64) -> CostModel:
    """A tier whose bandwidth is not known, or that the part reads nothing from, stays as it is."""
    tiers = tuple(
        replace(tier, bandwidth_bytes_per_second=tier.bandwidth_bytes_per_second * (float(share) or 1.0))
        for tier, share in zip(cost.tiers, shares, strict=True)
    )
    return replace(cost, tiers=tiers)


def _scenario(
    name: str, curve: Curve, cost: CostModel, held: float, hit_rate: float, hours: float, storage: float
) -> Scenario:
    saved = hours * cost.gpu_hour_price
    is_worth = saved > storage
    return Scenario(
        name=name,
        requests=curve.requests,
        asked_tokens=curve.tokens,
        capacity_bytes=held,
        hit_rate=hit_rate,
        saved_gpu_hours_month=hours,
        saved_money_month=saved,
        storage_money_month=storage,
        net_money_month=saved - storage,
        money_per_gib_month=saved / (held / GIB) if held else 0.0,
        is_worth=is_worth,
        reason=f"saves {saved:,.2f} {cost.currency} a month and costs {storage:,.2f}",
    )


def _unknown(name: str, curve: Curve) -> Scenario:
    reason = "a single point in time: nothing per month follows from it"
    return Scenario(name, curve.requests, curve.tokens, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, reason)
