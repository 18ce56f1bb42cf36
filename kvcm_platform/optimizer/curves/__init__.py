"""Exact curves of a trace: LRU and TTL in one pass, the clairvoyant bound, what they say of tiers."""

from .analysis import LruAnalysis, Window, WorkingSet, lru_analysis
from .belady import belady_curve
from .histograms import AccessCounts, Histogram, access_counts, block_accesses
from .lru import lru_curve
from .sampling import SampledCurve, sampled_curve
from .tiers import TierHits, TierSplit, tier_capacities, tiers
from .ttl import ttl_curve

__all__ = [
    "AccessCounts",
    "Histogram",
    "LruAnalysis",
    "SampledCurve",
    "TierHits",
    "TierSplit",
    "Window",
    "WorkingSet",
    "access_counts",
    "belady_curve",
    "block_accesses",
    "lru_analysis",
    "lru_curve",
    "sampled_curve",
    "tier_capacities",
    "tiers",
    "ttl_curve",
]
