"""Exact curves of a trace: LRU and TTL in one pass, the clairvoyant bound, what they say of tiers."""

from .analysis import LruAnalysis, Window, WorkingSet, lru_analysis
from .histograms import AccessCounts, Histogram, access_counts, block_accesses
from .lru import lru_curve

__all__ = [
    "AccessCounts",
    "Histogram",
    "LruAnalysis",
    "Window",
    "WorkingSet",
    "access_counts",
    "block_accesses",
    "lru_analysis",
    "lru_curve",
]
