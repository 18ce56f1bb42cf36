"""The k smallest of many, in the order that GNU libstdc++'s std::partial_sort leaves them.

Equal values are common among timestamps, and which of them come first depends on the heap of the standard
library: a heap of the first k, every later element that is smaller than its top takes the top's place, and
the heap is sorted at the end. Written from the algorithm; the steps and their order are what is compatible.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32, Int64


@compiled
def _sift(
    items: Int32, first: int, hole: int, length: int, item: int, last: Int64, names: Int32, base: int
) -> None:
    """Lets the hole sink to a leaf along the larger children, then lets `item` rise from there."""
    top = hole
    child = hole
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if last[names[base + items[first + child]]] < last[names[base + items[first + child - 1]]]:
            child -= 1
        items[first + hole] = items[first + child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * child + 1
        items[first + hole] = items[first + child]
        hole = child
    time = last[names[base + item]]
    while hole > top and last[names[base + items[first + (hole - 1) // 2]]] < time:
        items[first + hole] = items[first + (hole - 1) // 2]
        hole = (hole - 1) // 2
    items[first + hole] = item


@compiled
def partial_sort(
    items: Int32, first: int, count: int, length: int, last: Int64, names: Int32, base: int
) -> None:
    """Sorts so that the `count` smallest of `items[first : first + length]` come first.

    An item is a place; its value is `last[names[base + place]]`.
    """
    for hole in range((count - 2) // 2, -1, -1):
        _sift(items, first, hole, count, items[first + hole], last, names, base)
    for at in range(count, length):
        item = items[first + at]
        if last[names[base + item]] < last[names[base + items[first]]]:
            items[first + at] = items[first]
            _sift(items, first, 0, count, item, last, names, base)
    for end in range(count - 1, 0, -1):
        item = items[first + end]
        items[first + end] = items[first]
        _sift(items, first, 0, end, item, last, names, base)
