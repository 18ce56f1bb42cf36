"""The reference simulator's `random_lru`: of batch / sample_rate blocks drawn the oldest leave.

Draws are with replacement and xorshift64's, from a state fixed at the start, modulo the number of residents.
A block drawn twice leaves once, so that a call may evict fewer blocks than asked for. Ages are timestamps,
of which many are equal; see `partial_sort`.
"""

from __future__ import annotations

import numpy as np

from kvcm_platform.optimizer.compat.partial_sort import partial_sort
from kvcm_platform.optimizer.compat.state import BASE, OLDER, RANDOM, RESIDENT, SAMPLE_SIZE, SIZE
from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32, Int64

FIRST_STATE = 0x12345678ABCDEF01


@compiled
def hit(blocks: Int32, last: Int64, path: Int32, begin: int, end: int, now: int) -> int:
    """Touches the leading blocks that are resident; their number."""
    at = begin
    while at < end and blocks[path[at], RESIDENT] == 1:
        last[path[at]] = now
        at += 1
    return at - begin


@compiled
def write(
    blocks: Int32,
    last: Int64,
    instances: Int64,
    scratch: Int32,
    owner: int,
    path: Int32,
    begin: int,
    end: int,
    now: int,
) -> int:
    """Inserts what is missing; its number."""
    size = instances[owner, SIZE]
    before = size
    for at in range(begin, end):
        block = path[at]
        if blocks[block, RESIDENT] == 0:
            blocks[block, RESIDENT] = 1
            blocks[block, OLDER] = size
            scratch[instances[owner, BASE] + size] = block
            last[block] = now
            size += 1
    instances[owner, SIZE] = size
    written: int = size - before
    return written


@compiled
def _draw(instances: Int64, scratch: Int32, owner: int, drawn: int, count: int) -> None:
    """`count` places among the residents, at `scratch[drawn:]`."""
    size = np.uint64(instances[owner, SIZE])
    x = np.uint64(instances[owner, RANDOM])
    for at in range(count):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        scratch[drawn + at] = np.int64(x % size)
    instances[owner, RANDOM] = np.int64(x)


@compiled
def evict(blocks: Int32, last: Int64, instances: Int64, scratch: Int32, owner: int, count: int) -> int:
    """Evicts up to `count` blocks; how many."""
    size = instances[owner, SIZE]
    if size == 0:
        return 0
    base = instances[owner, BASE]
    drawn = 2 * len(blocks)
    draws = min(instances[owner, SAMPLE_SIZE], size)
    picked = min(min(count, size), draws)
    _draw(instances, scratch, owner, drawn, draws)
    partial_sort(scratch, drawn, picked, draws, last, scratch, base)
    for at in range(drawn, drawn + picked):
        scratch[at] = scratch[base + scratch[at]]
    evicted = 0
    for at in range(drawn, drawn + picked):
        block = scratch[at]
        if blocks[block, RESIDENT] == 1:
            size -= 1
            moved = scratch[base + size]
            place = blocks[block, OLDER]
            scratch[base + place] = moved
            blocks[moved, OLDER] = place
            blocks[block, RESIDENT] = 0
            evicted += 1
    instances[owner, SIZE] = size
    return evicted
