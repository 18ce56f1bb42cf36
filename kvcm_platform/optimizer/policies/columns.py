"""The arrays of a cache that a replay works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.optimizer.policies import dispatch, state
from kvcm_platform.optimizer.policies.registry import Policy
from kvcm_platform.optimizer.policies.state import NOBODY
from kvcm_platform.optimizer.trace import Trace


@dataclass(frozen=True, slots=True)
class Cache:
    """The arrays of `state`."""

    blocks: NDArray[np.int32]
    queues: NDArray[np.int32]
    numbers: NDArray[np.int64]


def new_cache(trace: Trace, policy: Policy, *, counts_bytes: bool, largest_capacity: int) -> Cache:
    """A cache that `reset` makes ready for a capacity: 16 or 24 bytes a distinct block."""
    has_owners = counts_bytes or policy.number == dispatch.LEAF_LRU
    rows = 3
    if policy.number == dispatch.LFU:
        # A block can be used once a request.
        rows = trace.requests + 3
    elif policy.number == dispatch.SAMPLED_LRU:
        most = trace.distinct_blocks if counts_bytes else min(trace.distinct_blocks, largest_capacity)
        rows = max(rows, most)
    columns = state.ALL_COLUMNS if has_owners else state.PLAIN_COLUMNS
    blocks = np.empty((trace.distinct_blocks, columns), np.int32)
    if has_owners:
        blocks[:, state.PARENT] = trace.parent
        blocks[:, state.OWNER] = trace.path_instance
    weights = [instance.block_bytes for instance in trace.header.instances] if counts_bytes else []
    numbers = np.zeros(state.WEIGHTS + len(weights), np.int64)
    numbers[state.IS_WEIGHTED] = counts_bytes
    numbers[state.WEIGHTS :] = weights
    return Cache(blocks, np.empty((rows, 2), np.int32), numbers)


def reset(cache: Cache, *, capacity: int, parameters: dict[str, float], seed: int) -> None:
    """Empties a cache and gives it a capacity."""
    cache.blocks[:, state.WHERE] = state.AWAY
    cache.blocks[:, state.USES] = 0
    cache.queues.fill(NOBODY)
    numbers = cache.numbers
    numbers[: state.IS_WEIGHTED] = 0
    numbers[state.CAPACITY] = capacity
    numbers[state.HAND] = NOBODY
    numbers[state.LEAST] = 1
    numbers[state.SAMPLES] = int(parameters.get("samples", 0))
    numbers[state.THRESHOLD] = int(parameters.get("threshold", 0))
    # The small queue holds one block at least: else nothing new could enter a tiny cache.
    numbers[state.SMALL_CAPACITY] = max(1, int(capacity * parameters.get("small_ratio", 0.0)))
    numbers[state.GHOST_CAPACITY] = int(capacity * parameters.get("ghost_ratio", 0.0))
    numbers[state.RANDOM : state.RANDOM + 1].view(np.uint64)[0] = _mixed(seed)


def _mixed(seed: int) -> int:
    """The finalizer of splitmix64: near seeds give far states, never 0 (which xorshift would not leave)."""
    mask = 2**64 - 1
    x = (seed + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) or 1
