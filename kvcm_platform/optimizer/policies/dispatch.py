"""One entry for each thing that happens to a cache, whatever its policy.

The policy is a number, so that one compiled replay serves all of them.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.policies import clock, leaf_lru, lfu, lru, s3_fifo, sampled_lru, sieve
from kvcm_platform.optimizer.policies.state import CAPACITY, COUNT, EVICTED, FIRST, USED, renew, weight
from kvcm_platform.optimizer.trace import Int32, Int64

LRU = 0
FIFO = 1
LFU = 2
CLOCK = 3
SIEVE = 4
S3_FIFO = 5
SAMPLED_LRU = 6
LEAF_LRU = 7

_lfu_use, _lfu_renew, _lfu_insert, _lfu_evict = lfu.use, lfu.renew, lfu.insert, lfu.evict
_mark, _clock_insert, _clock_evict, _sieve_evict = clock.use, clock.insert, clock.evict, sieve.evict
_s3_use, _s3_insert, _s3_evict, _leave_ghost = s3_fifo.use, s3_fifo.insert, s3_fifo.evict, s3_fifo.leave_ghost
_sampled_use, _sampled_insert, _sampled_evict = sampled_lru.use, sampled_lru.insert, sampled_lru.evict
_lru_insert, _lru_evict = lru.insert, lru.evict
_leaf_insert, _leaf_evict = leaf_lru.insert, leaf_lru.evict


@compiled
def meet(
    policy: int, blocks: Int32, queues: Int32, numbers: Int64, path: int, step: int, is_write: bool
) -> None:
    """A request comes to a block that is resident, as the `step`-th of its chain.

    It is used; a write makes it recent, where recency counts, but is no use: so a request counts one use of a
    block whether its write comes with its read or later.
    """
    if policy in (LRU, LEAF_LRU):
        renew(blocks, queues, FIRST, path)
    elif policy == SAMPLED_LRU:
        _sampled_use(blocks, numbers, path, step)
    elif policy == LFU:
        if is_write:
            _lfu_renew(blocks, queues, path)
        else:
            _lfu_use(blocks, queues, path)
    elif not is_write:
        if policy == S3_FIFO:
            _s3_use(blocks, path)
        elif policy != FIFO:
            _mark(blocks, path)


@compiled
def _evict(policy: int, blocks: Int32, queues: Int32, numbers: Int64) -> int:
    if policy in (LRU, FIFO):
        return _lru_evict(blocks, queues)
    if policy == LFU:
        return _lfu_evict(blocks, queues, numbers)
    if policy == CLOCK:
        return _clock_evict(blocks, queues)
    if policy == SIEVE:
        return _sieve_evict(blocks, queues, numbers)
    if policy == S3_FIFO:
        return _s3_evict(blocks, queues, numbers)
    if policy == SAMPLED_LRU:
        return _sampled_evict(blocks, queues, numbers)
    return _leaf_evict(blocks, queues)


@compiled
def bring(policy: int, blocks: Int32, queues: Int32, numbers: Int64, path: int, step: int) -> None:
    """Inserts a block that is away, evicting until it fits. What is larger than the cache empties it."""
    size = weight(blocks, numbers, path)
    was_ghost = policy == S3_FIFO and _leave_ghost(blocks, queues, numbers, path)
    while numbers[USED] + size > numbers[CAPACITY] and numbers[COUNT] > 0:
        victim = _evict(policy, blocks, queues, numbers)
        numbers[USED] -= weight(blocks, numbers, victim)
        numbers[COUNT] -= 1
        numbers[EVICTED] += 1
    if numbers[USED] + size > numbers[CAPACITY]:
        return
    if policy in (LRU, FIFO):
        _lru_insert(blocks, queues, path)
    elif policy == LFU:
        _lfu_insert(blocks, queues, numbers, path)
    elif policy in (CLOCK, SIEVE):
        _clock_insert(blocks, queues, path)
    elif policy == S3_FIFO:
        _s3_insert(blocks, queues, numbers, path, was_ghost)
    elif policy == SAMPLED_LRU:
        _sampled_insert(blocks, queues, numbers, path, step)
    else:
        _leaf_insert(blocks, queues, path)
    numbers[USED] += size
    numbers[COUNT] += 1
