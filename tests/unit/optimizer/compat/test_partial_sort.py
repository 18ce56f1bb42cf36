"""The order among equal timestamps is that of GNU libstdc++'s own std::partial_sort."""

from __future__ import annotations

import numpy as np
import pytest

from kvcm_platform.optimizer.compat.partial_sort import partial_sort
from tests.support.naive_reference import libstdcxx_partial_sort

# Written by a program of ten lines around std::partial_sort (g++ 12, libstdc++): the time of each block, the
# blocks drawn, how many of them to sort, and how they lie afterwards.
# fmt: off
OF_LIBSTDCXX = [
([12], [0], 1, [0]),
    ([1], [0], 1, [0]),
    ([1, 0, 3, 3, 2, 1, 3, 3, 3, 3, 1],
     [5, 4, 6, 5, 6, 10, 9, 3, 6, 7, 1],
     5,
     [1, 5, 10, 5, 4, 6, 9, 3, 6, 7, 6]),
    ([75, 33, 99, 12, 3, 65, 17, 70, 23, 77],
     [3, 9, 0, 8, 5, 9, 3, 3, 6, 8],
     1,
     [3, 9, 0, 8, 5, 9, 3, 3, 6, 8]),
    ([0, 1, 0, 0, 2, 2, 1, 0, 1, 3, 0, 0],
     [1, 6, 4, 3, 1, 0, 6, 9, 5, 2, 6, 0],
     4,
     [2, 3, 0, 0, 4, 1, 6, 9, 5, 1, 6, 6]),
    ([1], [0], 1, [0]),
    ([86, 71, 41, 98], [2, 2, 0, 0], 2, [2, 2, 0, 0]),
    ([0, 1, 0, 0, 1, 1, 3], [4, 5, 3, 5, 1, 6, 1], 6, [3, 5, 5, 1, 1, 4, 6]),
    ([1, 0, 0, 0, 0, 2, 0, 0], [6, 0, 5, 6, 3, 2, 1, 5], 7, [6, 3, 6, 2, 1, 0, 5, 5]),
    ([2], [0], 1, [0]),
    ([1, 2, 3, 2, 0, 0, 3, 3, 2, 0, 2],
     [5, 0, 0, 9, 4, 1, 9, 7, 7, 8, 0],
     6,
     [9, 4, 9, 5, 0, 0, 1, 7, 7, 8, 0]),
    ([2], [0], 1, [0]),
    ([34, 0, 14], [1, 2, 0], 3, [1, 2, 0]),
    ([0, 3, 3, 1, 3, 2, 2, 1, 3, 1, 1, 0, 3],
     [11, 8, 11, 4, 11, 8, 10, 10, 8, 0, 3, 11, 7],
     11,
     [11, 0, 11, 11, 11, 7, 10, 3, 10, 8, 4, 8, 8]),
    ([0, 0, 2, 2, 1, 1, 1, 2, 1, 0, 3, 2, 0, 2],
     [3, 2, 9, 11, 0, 11, 6, 10, 5, 10, 9, 5, 1, 0],
     6,
     [9, 0, 0, 1, 9, 5, 11, 10, 3, 10, 11, 2, 6, 5]),
    ([86, 84], [0, 1], 2, [1, 0]),
    ([0, 2, 2, 3, 3, 1, 2, 1, 3, 2, 1, 1, 1],
     [3, 10, 9, 1, 9, 11, 1, 12, 0, 5, 7, 6, 6],
     2,
     [0, 11, 3, 1, 9, 9, 1, 12, 10, 5, 7, 6, 6]),
    ([3, 3, 3, 3, 0, 1, 3, 3, 2], [0, 4, 6, 6, 4, 1, 0, 6, 4], 4, [4, 4, 4, 6, 6, 1, 0, 6, 0]),
    ([99, 58, 11, 19, 44, 33, 68, 92, 54, 19, 34],
     [6, 2, 0, 4, 0, 10, 0, 8, 8, 5, 7],
     7,
     [2, 5, 10, 4, 8, 8, 6, 0, 0, 0, 7]),
    ([3, 1, 3, 1, 3, 3, 0, 0, 2, 1, 3],
     [3, 4, 9, 7, 2, 3, 3, 2, 10, 3, 2],
     4,
     [7, 3, 3, 9, 2, 4, 3, 2, 10, 3, 2]),
    ([3, 2, 3, 1, 1, 1], [4, 2, 5, 1, 2, 2], 6, [5, 4, 1, 2, 2, 2]),
    ([84, 7, 99, 19, 75, 45, 34, 10, 39], [0, 6, 5, 3, 1, 4, 2, 7, 7], 2, [1, 7, 0, 5, 6, 4, 2, 3, 7]),
    ([0, 1, 2, 2, 0, 0, 3, 1, 1, 3, 3, 0, 2],
     [3, 7, 6, 12, 9, 3, 12, 3, 2, 8, 2, 6, 9],
     1,
     [7, 3, 6, 12, 9, 3, 12, 3, 2, 8, 2, 6, 9]),
    ([1, 3, 3, 3, 3, 2, 1, 0, 3, 2, 3, 3, 2, 2, 2, 1, 2, 1, 2, 3, 3, 0, 1, 0, 3, 0, 2, 0, 1, 1, 0, 0, 1, 1,
      3, 2, 0, 1, 2, 0],
     [11, 28, 34, 5, 16, 5, 33, 36, 8, 19, 14, 14, 30, 29, 15, 22, 37, 10, 20, 22, 25, 16, 23, 28, 4, 11,
      23, 12, 19, 32, 30, 27, 17, 20, 35, 34, 33, 23, 16, 31],
     17,
     [25, 27, 23, 30, 30, 23, 36, 31, 23, 22, 37, 32, 28, 22, 29, 17, 28, 10, 20, 34, 11, 19, 8, 14, 4, 11,
      5, 12, 19, 14, 16, 16, 5, 20, 35, 34, 33, 15, 16, 33]),
]
# fmt: on


@pytest.mark.parametrize(("times", "drawn", "count", "expected"), OF_LIBSTDCXX)
def test_as_the_library_does_it(times: list[int], drawn: list[int], count: int, expected: list[int]) -> None:
    # Drawn places lie behind something else, and are places in a list of names, as in the cache.
    names = np.arange(len(times), dtype=np.int32)[::-1].copy()
    scratch = np.array([-1, -1, *drawn], np.int32)
    last = np.array(times[::-1], np.int64)
    partial_sort(scratch, 2, count, len(drawn), last, names, 0)
    assert scratch[2:].tolist() == expected
    assert scratch[:2].tolist() == [-1, -1]

    items = list(drawn)
    libstdcxx_partial_sort(items, count, times)
    assert items == expected
