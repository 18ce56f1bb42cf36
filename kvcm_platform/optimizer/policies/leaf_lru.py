"""Leaf LRU: evicts the least recent block that has no resident child, whatever the order of touches.

Equal to LRU with touches deepest first (OPTIMIZER.md 1, claim 3); kept as a policy of its own because engines
name it, and because it needs no care about the order. The replay touches deepest first for it, so the oldest
block mostly is a leaf and the walk past ancestors is short.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.lru import use
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    FIRST,
    HOME,
    NEWER,
    NOBODY,
    OLDEST,
    PARENT,
    USES,
    WHERE,
    push_newest,
    unlink,
)
from kvcm_platform.optimizer.trace import Int32

__all__ = ["evict", "insert", "use"]


@compiled
def insert(blocks: Int32, queues: Int32, path: int) -> None:
    push_newest(blocks, queues, FIRST, path)
    blocks[path, WHERE] = HOME
    parent = blocks[path, PARENT]
    if parent != NOBODY:
        blocks[parent, USES] += 1


@compiled
def evict(blocks: Int32, queues: Int32) -> int:
    path: int = queues[FIRST, OLDEST]
    while blocks[path, USES] > 0:
        path = blocks[path, NEWER]
    unlink(blocks, queues, FIRST, path)
    blocks[path, WHERE] = AWAY
    parent = blocks[path, PARENT]
    if parent != NOBODY:
        blocks[parent, USES] -= 1
    return path
