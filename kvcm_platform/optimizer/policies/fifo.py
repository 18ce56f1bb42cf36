"""FIFO: evicts the block that was brought first. Inserting and evicting are LRU's; using changes nothing."""

from __future__ import annotations

from kvcm_platform.optimizer.policies.lru import evict, insert

__all__ = ["evict", "insert"]
