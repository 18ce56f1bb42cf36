"""Bits of 64-bit words in compiled code, and a mixer of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiled import compiled

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
"""2^64 by the golden ratio, as an int64."""


def _define_leading_zeros(_context: Any, _value: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], cgutils.false_bit)

    return types.int64(types.int64), generate


def _define_set_bits(_context: Any, _value: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


leading_zeros: Any = intrinsic(_define_leading_zeros)
"""Of an int64, by the processor's instruction; 64 for 0."""
set_bits: Any = intrinsic(_define_set_bits)
"""How many bits of an int64 are set."""


@compiled
def highest_bit(word: int) -> int:
    """Place of the highest bit set in a word of 64 bits that is not 0."""
    return int(63 - leading_zeros(word))


@compiled
def mix64(value: int) -> Any:
    """An int64 without any pattern of `value`: the finalizer of splitmix64 (Steele, Lea, Flood 2014).

    Consecutive numbers need a real mixer before sampling; a product alone is none. Give multiples of GOLDEN.
    """
    mixed = np.uint64(value)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(mixed ^ (mixed >> np.uint64(31)))
