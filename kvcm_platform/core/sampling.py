"""Which blocks of live traffic the online estimate looks at: in or out for good, by the key alone.

A block is identified by 64 mixed bits of its instance and key, and looked at when the topmost `k` of them
are zero: one block in 2^k, each standing for 2^k. Shallow blocks carry much of the traffic (system prompts
that many requests share), so that one sample decides about percents of it (OPTIMIZER.md 5, "plain SHARDS
fails on KV traces"): the nearer to the root, the more of them are looked at. A position in a prompt is a
property of the block's key, so this leaves a block in or out for good, too.

Numpy only: metadata processes sample what they send.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UInt64 = NDArray[np.uint64]
UInt8 = NDArray[np.uint8]

CLASS_ENDS = (1, 4, 16, 64, 256)
"""Classes of depth: the first block of a prompt, blocks 1..3 and so on; one more class has the rest."""
CLASSES = len(CLASS_ENDS) + 1
CLASS_BITS = (12, 8, 6, 4, 2, 0)
"""By class: how many bits fewer have to be zero. The best of some tried on the shared traces."""
MOST_BITS = 24
"""Of `k`: one block in 16 million is the least."""

UNKNOWN_DEPTH = CLASSES - 1
"""The class of blocks of a Start: some engines name all blocks of a prompt, others those that are missing."""

CLASS_MASK = 0x0F
IS_ASKED = 0x10
IS_HIT = 0x20
"""A sampled block is told in a byte: its class, whether the caller asked for it, whether it was found."""

_SHIFT = np.uint64(32)
_FIRST = np.uint64(0xD6E8FEB86659FD93)
_SALT = np.uint64(0x9E3779B97F4A7C15)


def mixed(keys: NDArray[np.int64], salts: NDArray[np.uint64] | np.uint64) -> UInt64:
    """64 well mixed bits of each key; `salts` tells instances apart.

    The function is xmxmx with the constant of degski's 64-bit mixer: neighbouring keys (some engines
    number blocks) must not land beside each other, as a multiplication alone leaves them.
    """
    bits = keys.view(np.uint64) ^ salts
    for _ in range(2):
        bits ^= bits >> _SHIFT
        bits *= _FIRST
    bits ^= bits >> _SHIFT
    return bits


def salt_of(instance_number: int) -> int:
    """What `mixed` is given for the blocks of an instance."""
    return (instance_number * int(_SALT)) & (1 << 64) - 1


def classes_of(depths: NDArray[np.int64]) -> UInt8:
    """The class of each position in a prompt, 0-based."""
    return np.searchsorted(np.asarray(CLASS_ENDS), depths, side="right").astype(np.uint8)


def limits(k: int) -> UInt64:
    """By class: the greatest id that is looked at at the rate `k`."""
    return np.array([(1 << 64 - max(0, k - bits)) - 1 for bits in CLASS_BITS], dtype=np.uint64)


def weights(k: int) -> NDArray[np.int64]:
    """By class: how many blocks one that is looked at at the rate `k` stands for."""
    return np.array([1 << max(0, k - bits) for bits in CLASS_BITS], dtype=np.int64)


def is_sampled(ids: UInt64, classes: UInt8, k: int) -> NDArray[np.bool_]:
    """Which of these blocks are looked at at the rate `k`; what is in at one rate is in at all lower ones."""
    return np.asarray(ids <= limits(k)[classes])
