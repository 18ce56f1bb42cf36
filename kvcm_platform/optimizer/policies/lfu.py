"""LFU: evicts the block used the fewest times while resident, of equals the least recent.

Counts start anew when a block comes back ("in-cache LFU"): no stack algorithm. One queue a use count.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    HOME,
    LEAST,
    NOBODY,
    OLDEST,
    USES,
    WHERE,
    push_newest,
    unlink,
)
from kvcm_platform.optimizer.policies.state import renew as renew_in_queue
from kvcm_platform.optimizer.trace import Int32, Int64


@compiled
def use(blocks: Int32, queues: Int32, path: int) -> None:
    count = blocks[path, USES]
    unlink(blocks, queues, count, path)
    blocks[path, USES] = count + 1
    push_newest(blocks, queues, count + 1, path)


@compiled
def renew(blocks: Int32, queues: Int32, path: int) -> None:
    """Recent, but not used once more: what a write does to a block that is there."""
    renew_in_queue(blocks, queues, blocks[path, USES], path)


@compiled
def insert(blocks: Int32, queues: Int32, numbers: Int64, path: int) -> None:
    blocks[path, USES] = 1
    push_newest(blocks, queues, 1, path)
    blocks[path, WHERE] = HOME
    numbers[LEAST] = 1


@compiled
def evict(blocks: Int32, queues: Int32, numbers: Int64) -> int:
    count = numbers[LEAST]
    while queues[count, OLDEST] == NOBODY:
        count += 1
    numbers[LEAST] = count
    path: int = queues[count, OLDEST]
    unlink(blocks, queues, count, path)
    blocks[path, WHERE] = AWAY
    return path
