"""What a cache saved and cost in a time of real traffic. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kvcm_platform.core.traffic_amounts import TrafficAmounts
from kvcm_platform.optimizer.roi.cost import GIB, MONTH_SECONDS, CostModel


@dataclass(frozen=True, slots=True)
class Saving:
    """Money is in the cost model's currency and of the time itself, not of a month."""

    prefill_seconds: float = 0.0
    """Accelerator seconds that hits spared, at least."""
    saved_money: float = 0.0
    storage_money: float = 0.0

    def __add__(self, other: Saving) -> Saving:
        return Saving(
            self.prefill_seconds + other.prefill_seconds,
            self.saved_money + other.saved_money,
            self.storage_money + other.storage_money,
        )

    @property
    def gpu_hours(self) -> float:
        return self.prefill_seconds / 3600

    @property
    def net_money(self) -> float:
        return self.saved_money - self.storage_money


def saving(amounts: TrafficAmounts, cost: CostModel) -> Saving:
    """What the hits spared, and what the held bytes cost, with tiers filled in their order by the mean."""
    seconds = cost.prefill_seconds(amounts.hit_tokens, amounts.hit_token_positions)
    price = storage_price(amounts.mean_bytes, cost)
    return Saving(
        seconds, seconds / 3600 * cost.gpu_hour_price, price * amounts.known_seconds / MONTH_SECONDS
    )


def storage_price(held_bytes: float, cost: CostModel) -> float:
    """Of a mean month, with the tiers filled in their order."""
    left, price = held_bytes, 0.0
    for place, tier in enumerate(cost.tiers):
        is_last = place == len(cost.tiers) - 1
        held = left if is_last or not tier.capacity_bytes else min(left, float(tier.capacity_bytes))
        price += held / GIB * tier.price_per_gib_month
        left -= held
    return price
