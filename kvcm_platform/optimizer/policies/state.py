"""What a simulated cache remembers: three integer arrays, one layout for every policy.

Blocks are named by their path ids, so no hash table is needed, and ids of a chain are neighbours in memory.
Only three arrays, because compiled code counts references for each array that it hands to a function.

- `blocks`: P rows, int32, one a path id: where it is, its two neighbours in its queue, its uses.
- `queues`: int32, one row a queue: its newest block, its oldest. (Sampled LRU: who is resident, unordered.)
- `numbers`: int64, see below; behind them the weights of blocks by instance.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32, Int64

NOBODY = -1

# Columns of `blocks`.
WHERE = 0
NEWER = 1
"""The neighbour towards the newest of the queue, or NOBODY. Sampled LRU: when it was used."""
OLDER = 2
"""The other neighbour. Sampled LRU: its place among the residents."""
USES = 3
"""Times used; marks of CLOCK and SIEVE; resident children (leaf LRU); place in its last use (sampled LRU)."""
PARENT = 4
"""Leaf LRU and weighted caches have these two columns."""
OWNER = 5
PLAIN_COLUMNS = 4
ALL_COLUMNS = 6

# Values of WHERE: above 0 is resident.
AWAY = 0
HOME = 1
"""In the only queue of most policies, the small one of S3-FIFO, one of the queues of LFU."""
MAIN = 2
GHOST = -1
"""Evicted, its id still remembered (S3-FIFO)."""

# Columns of `queues`.
NEWEST = 0
OLDEST = 1
# Rows of `queues`. LFU has one queue a use count instead.
FIRST = 0
SECOND = 1
THIRD = 2

# Positions in `numbers`.
CAPACITY = 0
USED = 1
COUNT = 2
EVICTED = 3
HAND = 4
"""Of SIEVE: the block it looks at next, or NOBODY for the oldest."""
CLOCK = 5
"""Of sampled LRU: how many times blocks of a request were touched together."""
LEAST = 6
"""No block of LFU has been used fewer times than this."""
SMALL_CAPACITY = 7
GHOST_CAPACITY = 8
HAS_EVICTED = 9
SAMPLES = 10
THRESHOLD = 11
RANDOM = 12
"""State of xorshift64, its 64 bits."""
QUEUE_USED = 13
"""And the two behind it: what the rows of `queues` hold, for S3-FIFO."""
IS_WEIGHTED = 16
WEIGHTS = 17


@compiled
def weight(blocks: Int32, numbers: Int64, path: int) -> int:
    """What a block takes of the capacity: 1, or its bytes."""
    if numbers[IS_WEIGHTED] == 0:
        return 1
    size: int = numbers[WEIGHTS + blocks[path, OWNER]]
    return size


@compiled
def push_newest(blocks: Int32, queues: Int32, queue: int, path: int) -> None:
    """Puts a block that is in no queue at the newest end of one."""
    first = queues[queue, NEWEST]
    blocks[path, OLDER] = first
    blocks[path, NEWER] = NOBODY
    if first == NOBODY:
        queues[queue, OLDEST] = path
    else:
        blocks[first, NEWER] = path
    queues[queue, NEWEST] = path


@compiled
def unlink(blocks: Int32, queues: Int32, queue: int, path: int) -> None:
    """Takes a block out of its queue."""
    newer = blocks[path, NEWER]
    older = blocks[path, OLDER]
    if newer == NOBODY:
        queues[queue, NEWEST] = older
    else:
        blocks[newer, OLDER] = older
    if older == NOBODY:
        queues[queue, OLDEST] = newer
    else:
        blocks[older, NEWER] = newer


@compiled
def renew(blocks: Int32, queues: Int32, queue: int, path: int) -> None:
    """Makes a block the newest of its queue."""
    if queues[queue, NEWEST] != path:
        unlink(blocks, queues, queue, path)
        push_newest(blocks, queues, queue, path)
