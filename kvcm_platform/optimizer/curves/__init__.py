"""Exact curves of a trace: LRU and TTL in one pass, the clairvoyant bound, what they say of tiers."""

from .lru import lru_curve

__all__ = ["lru_curve"]
