"""The protocol's chained block keys (core/block_keys, WIRE.md 3.1), compiled."""

from __future__ import annotations

from array import array

import numpy as np

from ..compiled import compiled_allocating


@compiled_allocating
def _chain(values, block_tokens, keys):  # type: ignore[no-untyped-def]
    state = np.int64(0)
    at = 0
    for block in range(len(keys)):
        for _ in range(block_tokens):
            state ^= values[at] + np.int64(-7046029254386353131) + (state << 12) + (state >> 32)
            at += 1
        keys[block] = state


def chain_tokens(tokens: array[int], block_tokens: int) -> array[int]:
    """Keys of the full blocks of these tokens ("q")."""
    keys = array("q", bytes(8 * (len(tokens) // block_tokens)))
    if keys:
        _chain(np.frombuffer(tokens, np.int64), block_tokens, np.frombuffer(keys, np.int64))
    return keys


def chain_ids(ids: array[int]) -> array[int]:
    """Keys of ids that name their block alone: each as one token."""
    return chain_tokens(ids, 1)
