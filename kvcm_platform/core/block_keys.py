"""Block keys from token ids: the chained 64-bit hash of the protocol (WIRE.md 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

_MASK = (1 << 64) - 1
_HIGH = 0xFFFFFFFF00000000
_GOLDEN = 0x9E3779B97F4A7C15
_SIGN = 1 << 63


def chained_block_keys(tokens: Sequence[int], block_size: int, state: int = 0) -> list[int]:
    """Signed 64-bit keys, one per full block of `block_size` tokens; an unfinished tail gives none.

    `state` is the key of the block before the first one.

    For every token v the state h becomes h XOR (v + golden + (h << 12) + (h >> 32)) modulo 2^64,
    where >> shifts the signed value. The state carries over, so a key names its whole prefix.
    """
    if block_size <= 0:
        raise ValueError("block_size must be positive")
    keys: list[int] = []
    state &= _MASK
    full = len(tokens) - len(tokens) % block_size
    for start in range(0, full, block_size):
        for token in tokens[start : start + block_size]:
            shifted = state >> 32
            if state & _SIGN:
                shifted |= _HIGH
            state = (state ^ (token + _GOLDEN + (state << 12) + shifted)) & _MASK
        keys.append(state - (1 << 64) if state & _SIGN else state)
    return keys
