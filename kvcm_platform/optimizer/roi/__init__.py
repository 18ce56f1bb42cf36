"""What a cache is worth in accelerator time and money."""

from .benefit import Roi, TierShare, roi
from .best import BestCapacity, Scenario, best_capacity, best_of, rank
from .cost import (
    EXAMPLE_TIERS,
    GIB,
    MONTH_SECONDS,
    CostModel,
    StorageTier,
    cost_from_json,
    cost_to_json,
    preset,
)
from .document import best_to_json, roi_to_json, scenario_to_json
from .exact import ComputeCurve, exact_best
from .models import PRESETS, ModelCost, ModelShape, model_cost
from .sizes import capacity_bytes, capacity_of_bytes, hit_bytes, mean_block_bytes, with_block_bytes

__all__ = [
    "EXAMPLE_TIERS",
    "GIB",
    "MONTH_SECONDS",
    "PRESETS",
    "BestCapacity",
    "ComputeCurve",
    "CostModel",
    "ModelCost",
    "ModelShape",
    "Roi",
    "Scenario",
    "StorageTier",
    "TierShare",
    "best_capacity",
    "best_of",
    "best_to_json",
    "capacity_bytes",
    "capacity_of_bytes",
    "cost_from_json",
    "cost_to_json",
    "exact_best",
    "hit_bytes",
    "mean_block_bytes",
    "model_cost",
    "preset",
    "rank",
    "roi",
    "roi_to_json",
    "scenario_to_json",
    "with_block_bytes",
]
