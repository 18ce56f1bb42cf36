"""Masks as WIRE.md 3.2 and section A define them."""

from __future__ import annotations

import pytest

from kvcm_platform.core import masks
from kvcm_platform.core.errors import Code, DomainError

KEYS = [10, 20, 30, 40, 50]


@pytest.mark.parametrize(
    ("mask", "unmasked", "masked"),
    [
        (None, KEYS, []),
        (0, KEYS, []),
        (2, [30, 40, 50], [10, 20]),
        (5, [], KEYS),
        (99, [], KEYS),  # an offset past the end masks all
        ([True, False, True, False, False], [20, 40, 50], [10, 30]),
        ([True], [20, 30, 40, 50], [10]),  # a short list leaves the rest unmasked
        ([], KEYS, []),
        ([True] * 9, [], KEYS),
    ],
)
def test_query_masks(mask, unmasked, masked):
    assert list(masks.unmasked(mask, KEYS)) == unmasked
    assert list(masks.masked(mask, KEYS)) == masked
    assert masks.flags(mask, 5) == [key in masked for key in KEYS]


def test_negative_offset_is_refused_by_name():
    with pytest.raises(DomainError) as caught:
        masks.check(-1)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.field == "block_mask.offset"


@pytest.mark.parametrize(
    ("present", "answer"),
    [
        ([], 0),
        ([False, False], 0),
        ([True, True, False], 2),
        ([True, True], 2),
        ([False, True], [False, True]),
        ([True, False, True], [True, False, True]),
    ],
)
def test_answer_is_an_offset_exactly_for_prefixes(present, answer):
    assert masks.compact(present) == answer


@pytest.mark.parametrize(
    ("hits", "size", "start"),
    [
        ([1, 1, 0, 1, 1], 2, 3),  # the example of WIRE.md 3.3
        ([1, 1, 0, 1, 0], 2, 0),
        ([1, 0, 1, 0], 2, None),
        ([1, 1, 1], 3, 0),
        ([1, 1, 1, 1], 2, 2),
        ([], 1, None),
    ],
)
def test_rightmost_window(hits, size, start):
    assert masks.rightmost_window([bool(hit) for hit in hits], size) == start
