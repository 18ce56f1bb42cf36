"""SIEVE (Zhang et al., NSDI 2024): a hand walks from the oldest block to the newest, clears marks, and evicts
the first block without one; used blocks stay where they are in the queue."""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.clock import insert, use
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    FIRST,
    HAND,
    NEWER,
    NOBODY,
    OLDEST,
    USES,
    WHERE,
    unlink,
)
from kvcm_platform.optimizer.trace import Int32, Int64

__all__ = ["evict", "insert", "use"]


@compiled
def evict(blocks: Int32, queues: Int32, numbers: Int64) -> int:
    path: int = numbers[HAND]
    if path == NOBODY:
        path = queues[FIRST, OLDEST]
    while blocks[path, USES] > 0:
        blocks[path, USES] = 0
        path = blocks[path, NEWER]
        if path == NOBODY:
            path = queues[FIRST, OLDEST]
    numbers[HAND] = blocks[path, NEWER]
    unlink(blocks, queues, FIRST, path)
    blocks[path, WHERE] = AWAY
    return path
