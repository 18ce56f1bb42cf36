"""Sampled LRU, as Redis does it: of some resident blocks drawn at random the least recent is evicted.

`queues` lists the residents; draws are xorshift64's, with replacement. When a block was used is two numbers:
which touch of a chain it was, and the block's place in it (NEWER, USES).
"""

from __future__ import annotations

import numpy as np

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    CLOCK,
    COUNT,
    HOME,
    NEWER,
    NOBODY,
    OLDER,
    RANDOM,
    SAMPLES,
    USES,
    WHERE,
)
from kvcm_platform.optimizer.trace import Int32, Int64

SLOT = 0


@compiled
def use(blocks: Int32, numbers: Int64, path: int, step: int) -> None:
    blocks[path, NEWER] = numbers[CLOCK]
    blocks[path, USES] = step


@compiled
def insert(blocks: Int32, queues: Int32, numbers: Int64, path: int, step: int) -> None:
    """Before the block is counted: `numbers[COUNT]` is its place."""
    place = numbers[COUNT]
    queues[place, SLOT] = path
    blocks[path, OLDER] = place
    blocks[path, WHERE] = HOME
    use(blocks, numbers, path, step)


@compiled
def _is_older(blocks: Int32, path: int, than: int) -> bool:
    if blocks[path, NEWER] != blocks[than, NEWER]:
        return bool(blocks[path, NEWER] < blocks[than, NEWER])
    return bool(blocks[path, USES] < blocks[than, USES])


@compiled
def evict(blocks: Int32, queues: Int32, numbers: Int64) -> int:
    """Before the block is discounted."""
    count = numbers[COUNT]
    x = np.uint64(numbers[RANDOM])
    victim: int = NOBODY
    for _ in range(numbers[SAMPLES]):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        # The high half of the bits as a share of `count`, without a division.
        other = queues[np.int64(((x >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)), SLOT]
        if victim == NOBODY or _is_older(blocks, other, victim):
            victim = other
    numbers[RANDOM] = np.int64(x)
    place = blocks[victim, OLDER]
    moved = queues[count - 1, SLOT]
    queues[place, SLOT] = moved
    blocks[moved, OLDER] = place
    blocks[victim, WHERE] = AWAY
    return victim
