"""S3-FIFO (Yang et al., SOSP 2023): a small queue that once-used blocks leave again, a main one, a ghost one.

New blocks enter the small queue, those that the ghost queue remembers the main one. What was used
`threshold` times in the small queue moves to main when it would be evicted; main gives a round for each use,
at most three. Until the first eviction what the small queue has no room for goes to main, as in libCacheSim.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies.state import (
    AWAY,
    CAPACITY,
    FIRST,
    GHOST,
    GHOST_CAPACITY,
    HAS_EVICTED,
    HOME,
    MAIN,
    NOBODY,
    OLDEST,
    QUEUE_USED,
    SECOND,
    SMALL_CAPACITY,
    THIRD,
    THRESHOLD,
    USES,
    WHERE,
    push_newest,
    renew,
    unlink,
    weight,
)
from kvcm_platform.optimizer.trace import Int32, Int64

MOST_ROUNDS = 3


@compiled
def use(blocks: Int32, path: int) -> None:
    blocks[path, USES] += 1


@compiled
def leave_ghost(blocks: Int32, queues: Int32, numbers: Int64, path: int) -> bool:
    """Whether the ghost queue remembered the block, which it does no longer."""
    if blocks[path, WHERE] != GHOST:
        return False
    unlink(blocks, queues, THIRD, path)
    numbers[QUEUE_USED + THIRD] -= weight(blocks, numbers, path)
    blocks[path, WHERE] = AWAY
    return True


@compiled
def _enter(blocks: Int32, queues: Int32, numbers: Int64, queue: int, path: int) -> None:
    push_newest(blocks, queues, queue, path)
    numbers[QUEUE_USED + queue] += weight(blocks, numbers, path)
    blocks[path, WHERE] = HOME if queue == FIRST else MAIN
    blocks[path, USES] = 0


@compiled
def insert(blocks: Int32, queues: Int32, numbers: Int64, path: int, was_ghost: bool) -> None:
    small_is_full = numbers[QUEUE_USED + FIRST] >= numbers[SMALL_CAPACITY]
    if was_ghost or (numbers[HAS_EVICTED] == 0 and small_is_full):
        _enter(blocks, queues, numbers, SECOND, path)
    else:
        _enter(blocks, queues, numbers, FIRST, path)


@compiled
def _remember(blocks: Int32, queues: Int32, numbers: Int64, path: int) -> None:
    size = weight(blocks, numbers, path)
    blocks[path, WHERE] = AWAY
    if size > numbers[GHOST_CAPACITY]:
        return
    while numbers[QUEUE_USED + THIRD] + size > numbers[GHOST_CAPACITY]:
        forgotten = queues[THIRD, OLDEST]
        unlink(blocks, queues, THIRD, forgotten)
        numbers[QUEUE_USED + THIRD] -= weight(blocks, numbers, forgotten)
        blocks[forgotten, WHERE] = AWAY
    push_newest(blocks, queues, THIRD, path)
    numbers[QUEUE_USED + THIRD] += size
    blocks[path, WHERE] = GHOST


@compiled
def _evict_from_main(blocks: Int32, queues: Int32, numbers: Int64) -> int:
    path: int = queues[SECOND, OLDEST]
    while blocks[path, USES] > 0:
        blocks[path, USES] = min(blocks[path, USES], MOST_ROUNDS) - 1
        renew(blocks, queues, SECOND, path)
        path = queues[SECOND, OLDEST]
    unlink(blocks, queues, SECOND, path)
    numbers[QUEUE_USED + SECOND] -= weight(blocks, numbers, path)
    blocks[path, WHERE] = AWAY
    return path


@compiled
def evict(blocks: Int32, queues: Int32, numbers: Int64) -> int:
    numbers[HAS_EVICTED] = 1
    main_capacity = numbers[CAPACITY] - numbers[SMALL_CAPACITY]
    while queues[FIRST, OLDEST] != NOBODY and numbers[QUEUE_USED + SECOND] <= main_capacity:
        # An eviction out of the small queue goes on until one block has left or the queue is empty.
        while queues[FIRST, OLDEST] != NOBODY:
            path: int = queues[FIRST, OLDEST]
            unlink(blocks, queues, FIRST, path)
            numbers[QUEUE_USED + FIRST] -= weight(blocks, numbers, path)
            if blocks[path, USES] < numbers[THRESHOLD]:
                _remember(blocks, queues, numbers, path)
                return path
            _enter(blocks, queues, numbers, SECOND, path)
    return _evict_from_main(blocks, queues, numbers)
