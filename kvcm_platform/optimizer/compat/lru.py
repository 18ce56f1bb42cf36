"""The reference simulator's `lru`: a list of blocks, touched from the root of a chain down.

So the root of a chain is the oldest block of its request. Blocks behind the first miss are not touched where
they are resident.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compat.state import (
    NOBODY,
    OLDEST,
    RESIDENT,
    SIZE,
    move_to_front,
    push_front,
    unlink,
)
from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32, Int64


@compiled
def hit(blocks: Int32, instances: Int64, owner: int, path: Int32, begin: int, end: int) -> int:
    """Touches the leading blocks that are resident; their number."""
    at = begin
    while at < end and blocks[path[at], RESIDENT] == 1:
        move_to_front(blocks, instances, owner, path[at])
        at += 1
    return at - begin


@compiled
def write(blocks: Int32, instances: Int64, owner: int, path: Int32, begin: int, end: int) -> int:
    """Inserts what is missing, in the order of the chain; its number."""
    written = 0
    for at in range(begin, end):
        block = path[at]
        if blocks[block, RESIDENT] == 0:
            blocks[block, RESIDENT] = 1
            push_front(blocks, instances, owner, block)
            written += 1
    instances[owner, SIZE] += written
    return written


@compiled
def evict(blocks: Int32, instances: Int64, owner: int, count: int) -> int:
    """Takes up to `count` blocks from the old end; how many."""
    evicted = 0
    while evicted < count and instances[owner, OLDEST] != NOBODY:
        block = instances[owner, OLDEST]
        unlink(blocks, instances, owner, block)
        blocks[block, RESIDENT] = 0
        evicted += 1
    instances[owner, SIZE] -= evicted
    return evicted
