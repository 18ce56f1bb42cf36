"""LRU: evicts the block that was used least recently.

With touches deepest first an ancestor is always more recent than its descendants, so no resident block is
behind a hole (OPTIMIZER.md 1, claim 1).
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    FIRST,
    HOME,
    OLDEST,
    WHERE,
    push_newest,
    renew,
    unlink,
)
from kvcm_platform.optimizer.trace import Int32


@compiled
def use(blocks: Int32, queues: Int32, path: int) -> None:
    renew(blocks, queues, FIRST, path)


@compiled
def insert(blocks: Int32, queues: Int32, path: int) -> None:
    push_newest(blocks, queues, FIRST, path)
    blocks[path, WHERE] = HOME


@compiled
def evict(blocks: Int32, queues: Int32) -> int:
    path: int = queues[FIRST, OLDEST]
    unlink(blocks, queues, FIRST, path)
    blocks[path, WHERE] = AWAY
    return path
