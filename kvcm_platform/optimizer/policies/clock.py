"""CLOCK with one bit: a FIFO queue that gives a used block a second round."""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    FIRST,
    HOME,
    OLDEST,
    USES,
    WHERE,
    push_newest,
    renew,
    unlink,
)
from kvcm_platform.optimizer.trace import Int32


@compiled
def use(blocks: Int32, path: int) -> None:
    blocks[path, USES] = 1


@compiled
def insert(blocks: Int32, queues: Int32, path: int) -> None:
    blocks[path, USES] = 0
    push_newest(blocks, queues, FIRST, path)
    blocks[path, WHERE] = HOME


@compiled
def evict(blocks: Int32, queues: Int32) -> int:
    path: int = queues[FIRST, OLDEST]
    while blocks[path, USES] > 0:
        blocks[path, USES] = 0
        renew(blocks, queues, FIRST, path)
        path = queues[FIRST, OLDEST]
    unlink(blocks, queues, FIRST, path)
    blocks[path, WHERE] = AWAY
    return path
