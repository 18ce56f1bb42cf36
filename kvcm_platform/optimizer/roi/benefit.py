"""What a cache is worth: computing saved against storage paid, by capacity, from a curve alone.

Hits at a capacity C on tiers that are filled in order: the first tier serves hits(C1), the first two together
hits(C1 + C2), so a lower tier serves the difference (exact for an exclusive hierarchy of a policy with
inclusion, OPTIMIZER.md 1.8; for others an estimate).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.core.errors import invalid

from ..curve import Curve, Float64
from .cost import GIB, MONTH_SECONDS, CostModel, StorageTier
from .sizes import TTL, capacity_bytes, hit_bytes


@dataclass(frozen=True, slots=True)
class TierShare:
    """One tier at C capacities."""

    tier: StorageTier
    held_bytes: Float64
    hit_bytes: Float64
    """Read from this tier, over the span of the trace."""
    needed_bytes_per_second: Float64
    """Rate at which its hits are asked for in the busiest time (mean rate x `peak_ratio`)."""
    break_even_bytes_per_second: Float64
    """Rate at which loading its hits takes as long as computing them again, its latency included; 0 where it
    has no hits, infinite where its latency alone takes as long."""
    delivered_ratio: Float64
    """Share of its hits that its bandwidth can deliver; 1 where the bandwidth is not known."""


@dataclass(frozen=True, slots=True)
class Roi:
    """At C capacities, in the order of the curve's. Money is in `cost.currency`, for a mean month.

    `saved_seconds` are accelerator seconds within the span of the trace, of all hits; money, GPU hours and
    `net` count only what the tiers' bandwidth can deliver.
    """

    cost: CostModel
    capacity_bytes: Float64
    hit_rate: Float64
    saved_seconds: Float64
    saved_gpu_hours_month: Float64
    saved_money_month: Float64
    most_saved_money_month: Float64
    """What no capacity over that of the point before and up to this one can exceed, if hits never fall."""
    storage_money_month: Float64
    net_money_month: Float64
    break_even_price: Float64
    """Price of a GiB-month at which the capacity saves what it costs; 0 at capacity 0."""
    tiers: tuple[TierShare, ...]
    span_seconds: float


def roi(curve: Curve, cost: CostModel, *, block_bytes: float | None = None) -> Roi:
    """`curve` may count blocks, bytes or a TTL; `block_bytes` where the trace does not say the size of
    blocks.

    A capacity over what the tiers hold together is worth what that is worth. Where the busiest time asks for
    more than a tier delivers, the share that it cannot deliver is taken off all its hits: a lower bound.
    Raises DomainError for a trace without extent in time, or whose blocks have no known size.
    """
    if curve.span_us <= 0:
        raise invalid("trace", "all requests have the same time: nothing per month follows from it")
    span = curve.span_us / 1e6
    held = capacity_bytes(curve, block_bytes)
    positions = curve.hit_token_positions
    seconds = cost.seconds_per_token * curve.hit_tokens + cost.seconds_per_token_position * positions
    loads = np.minimum(curve.hit_blocks, curve.requests)
    parts = _TierParts(cost, held)
    bytes_of, seconds_of, loads_of = (
        parts.of(values) for values in (hit_bytes(curve, block_bytes), seconds, loads)
    )
    shares = tuple(
        _share(cost, tier, part, bytes_of[i], seconds_of[i], loads_of[i], span)
        for i, (tier, part) in enumerate(zip(cost.tiers, parts.held(), strict=True))
    )
    delivered, most, storage = np.zeros_like(held), np.zeros_like(held), np.zeros_like(held)
    for share, part in zip(shares, seconds_of, strict=True):
        delivered += part * share.delivered_ratio
        # A tier's hits grow with the capacity, and what it can deliver of them falls.
        most += part * np.concatenate([[1.0], share.delivered_ratio[:-1]])
        storage += share.held_bytes / GIB * share.tier.price_per_gib_month
    if not parts.has_edges(curve):
        # What the tiers hold is not known then, only that it is no more than at the point above.
        most = parts.reached(seconds)
    else:
        most = np.where(np.diff(curve.capacities, prepend=0) > 1, most, delivered)
    month = MONTH_SECONDS / span / 3600
    hours = delivered * month
    saved = hours * cost.gpu_hour_price
    return Roi(
        cost=cost,
        capacity_bytes=held,
        hit_rate=curve.hit_rate,
        saved_seconds=np.asarray(seconds, dtype=np.float64),
        saved_gpu_hours_month=hours,
        saved_money_month=saved,
        most_saved_money_month=most * month * cost.gpu_hour_price,
        storage_money_month=storage,
        net_money_month=saved - storage,
        break_even_price=_ratio(saved, held / GIB),
        tiers=shares,
        span_seconds=span,
    )


class _TierParts:
    """Which part of the cache, and of its hits, lies on which tier at each capacity."""

    def __init__(self, cost: CostModel, held: Float64) -> None:
        self._held = held
        self._edges = [0.0]
        for tier in cost.tiers:
            self._edges.append(self._edges[-1] + tier.capacity_bytes if tier.capacity_bytes else np.inf)

    def held(self) -> list[Float64]:
        filled = [np.minimum(self._held, edge) for edge in self._edges]
        return [upper - lower for lower, upper in pairwise(filled)]

    def of(self, values: NDArray[Any]) -> list[Float64]:
        """`values` at each capacity, split by the tier that serves them."""
        served = [self._at(np.minimum(self._held, edge), values) for edge in self._edges]
        return [upper - lower for lower, upper in pairwise(served)]

    def has_edges(self, curve: Curve) -> bool:
        """Whether all that fits into the tiers up to each edge is a point, so that its hits are known."""
        edges = np.array([edge for edge in self._edges[1:] if np.isfinite(edge)])
        above = np.searchsorted(self._held, edges, side="right")
        unit = 0.0 if curve.definition.policy == TTL else _unit_bytes(curve, self._held)
        below = np.concatenate([[0.0], self._held])[above]
        return bool(np.all((above == len(self._held)) | (below + unit > edges)))

    def reached(self, values: NDArray[Any]) -> Float64:
        """`values` of the first point that holds as much as fits into all tiers at each capacity."""
        fitting = np.minimum(self._held, self._edges[-1])
        first = np.searchsorted(self._held, fitting).clip(0, max(0, len(self._held) - 1))
        return np.asarray(np.asarray(values, dtype=np.float64)[first])

    def _at(self, sizes: Float64, values: NDArray[Any]) -> Float64:
        """Of the largest capacity of the curve within each size; 0 below the first."""
        known = np.concatenate([[0.0], np.asarray(values, dtype=np.float64)])
        return np.asarray(known[np.searchsorted(self._held, sizes, side="right")])


def _unit_bytes(curve: Curve, held: Float64) -> float:
    """Of one unit of capacity."""
    return float(held[-1] / curve.capacities[-1]) if len(held) and curve.capacities[-1] else 0.0


def _share(
    cost: CostModel,
    tier: StorageTier,
    held: Float64,
    loaded: Float64,
    seconds: Float64,
    loads: Float64,
    span: float,
) -> TierShare:
    needed = loaded / span * cost.peak_ratio
    spare = seconds / cost.gpus_per_engine - loads * tier.latency_seconds
    break_even = np.where(spare > 0, _ratio(loaded, spare), np.where(loaded > 0, np.inf, 0.0))
    bandwidth = tier.bandwidth_bytes_per_second
    delivered = np.minimum(1.0, _ratio(np.full_like(needed, bandwidth), needed, empty=1.0))
    return TierShare(
        tier=tier,
        held_bytes=held,
        hit_bytes=loaded,
        needed_bytes_per_second=needed,
        break_even_bytes_per_second=np.asarray(break_even),
        delivered_ratio=delivered if bandwidth else np.ones_like(needed),
    )


def _ratio(above: Float64, below: Float64, *, empty: float = 0.0) -> Float64:
    """`empty` where nothing is below."""
    return np.divide(above, below, out=np.full_like(above, empty), where=below > 0)
