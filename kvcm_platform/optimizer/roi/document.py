"""Worth as JSON: what REST answers, what runs store, what `--json` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ..curve import Float64
from .benefit import Roi, TierShare
from .best import BestCapacity, Scenario
from .cost import cost_to_json


def roi_to_json(worth: Roi, best: BestCapacity | None = None) -> dict[str, Any]:
    """All arrays by capacity; an infinite break-even bandwidth is null."""
    document: dict[str, Any] = {
        "cost_model": cost_to_json(worth.cost),
        "span_seconds": worth.span_seconds,
        "capacity_bytes": _numbers(worth.capacity_bytes),
        "hit_rate": _numbers(worth.hit_rate),
        "saved_seconds": _numbers(worth.saved_seconds),
        "saved_gpu_hours_month": _numbers(worth.saved_gpu_hours_month),
        "saved_money_month": _numbers(worth.saved_money_month),
        "most_saved_money_month": _numbers(worth.most_saved_money_month),
        "storage_money_month": _numbers(worth.storage_money_month),
        "net_money_month": _numbers(worth.net_money_month),
        "break_even_price": _numbers(worth.break_even_price),
        "tiers": [_tier_to_json(share) for share in worth.tiers],
    }
    if best is not None:
        document["best"] = best_to_json(best)
    return document


def best_to_json(best: BestCapacity) -> dict[str, Any]:
    return asdict(best)


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    return asdict(scenario)


def _tier_to_json(share: TierShare) -> dict[str, Any]:
    return {
        "name": share.tier.name,
        "held_bytes": _numbers(share.held_bytes),
        "hit_bytes": _numbers(share.hit_bytes),
        "needed_bytes_per_second": _numbers(share.needed_bytes_per_second),
        "break_even_bytes_per_second": _numbers(share.break_even_bytes_per_second),
        "delivered_ratio": _numbers(share.delivered_ratio),
    }


def _numbers(values: Float64) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
