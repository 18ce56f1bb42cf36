"""Block keys against check values made with the reference's own code (WIRE.md 3.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.block_keys import chained_block_keys


@pytest.mark.parametrize(
    ("tokens", "block_size", "keys"),
    [
        (range(1, 9), 4, [455111481605203084, 6902853672176602142]),
        ([456], 1, [-7046029254386352675]),
        ([-1, 5], 1, [-7046029254386353132, -8366447769517733433]),
    ],
)
def test_check_values(tokens, block_size, keys):
    assert chained_block_keys(list(tokens), block_size) == keys


def naive(tokens: list[int], block_size: int) -> list[int]:
    """The formula of WIRE.md word by word, on signed numbers."""

    def signed(value: int) -> int:
        value &= (1 << 64) - 1
        return value - (1 << 64) if value >> 63 else value

    keys, state = [], 0
    for count, token in enumerate(tokens, 1):
        state = signed(state ^ signed(token + 0x9E3779B97F4A7C15 + (state << 12) + (state >> 32)))
        if count % block_size == 0:
            keys.append(state)
    return keys


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=80), st.integers(1, 9))
def test_equals_the_formula(tokens, block_size):
    assert chained_block_keys(tokens, block_size) == naive(tokens, block_size)


def test_unfinished_tail_gives_no_key():
    assert len(chained_block_keys([1] * 11, 4)) == 2


def test_keys_name_their_prefix():
    assert chained_block_keys([1, 2, 3, 4], 2)[1] != chained_block_keys([9, 2, 3, 4], 2)[1]


def test_block_size_must_be_positive():
    with pytest.raises(ValueError, match="block_size"):
        chained_block_keys([1], 0)
