"""Which block comes before which, for formats that name only the parent of what is new."""

from __future__ import annotations

from array import array

import numpy as np

from ..compiled import compiled_allocating
from .errors import TraceReadError

MOST = 1 << 25
"""Blocks; about 28 bytes each."""

_FIRST = 1 << 12


class KnownBlocks:
    """Blocks by their chained hash, each with its parent."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._count = np.zeros(1, dtype=np.int64)
        self._key = np.zeros(_FIRST, dtype=np.int64)
        self._parent = np.zeros(_FIRST, dtype=np.int32)
        self._table = np.zeros(4 * _FIRST, dtype=np.int32)

    def extend(self, parent: int | None, keys: array[int]) -> tuple[array[int], bool]:
        """Adds a chain of blocks below `parent`; returns it from its root on, and if `parent` was known.

        A parent that was never heard of is taken for a root. A block that is known keeps its parent.
        """
        self._make_room(len(keys) + 1)
        new = np.frombuffer(keys, np.int64) if keys else np.zeros(0, np.int64)
        is_known, depth, last = _extend(
            self._key, self._parent, self._table, self._count, parent is not None, parent or 0, new
        )
        chain = array("q", bytes(8 * int(depth)))
        if chain:
            _walk(self._key, self._parent, last, np.frombuffer(chain, np.int64))
        return chain, bool(is_known)

    def _make_room(self, more: int) -> None:
        wanted = int(self._count[0]) + more
        if wanted > self._most:
            raise TraceReadError("too_many_blocks", f"more than {self._most:,} distinct blocks")
        if wanted > len(self._key):
            size = max(wanted, 2 * len(self._key))
            self._key = np.concatenate((self._key, np.zeros(size - len(self._key), np.int64)))
            self._parent = np.concatenate((self._parent, np.zeros(size - len(self._parent), np.int32)))
        if 2 * wanted > len(self._table):
            size = len(self._table)
            while 2 * wanted > size:
                size *= 2
            self._table = np.zeros(size, dtype=np.int32)
            _fill(self._key, self._table, self._count[0])


@compiled_allocating
def _slot(key, mask):  # type: ignore[no-untyped-def]
    h = np.uint64(key)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return np.int64((h ^ (h >> np.uint64(33))) & np.uint64(mask))


@compiled_allocating
def _find(keys, table, key):  # type: ignore[no-untyped-def]
    """Slot of the key, or the empty one where it belongs."""
    mask = len(table) - 1
    slot = _slot(key, mask)
    while table[slot] and keys[table[slot] - 1] != key:
        slot = (slot + 1) & mask
    return slot


@compiled_allocating
def _fill(keys, table, count):  # type: ignore[no-untyped-def]
    for block in range(count):
        table[_find(keys, table, keys[block])] = block + 1


@compiled_allocating
def _extend(keys, parents, table, count, has_parent, parent, new):  # type: ignore[no-untyped-def]
    """(parent was known, blocks from the root to the last new one, number of that one)."""
    above = -1
    is_known = True
    if has_parent:
        slot = _find(keys, table, parent)
        if not table[slot]:
            is_known = False
            keys[count[0]] = parent
            parents[count[0]] = -1
            count[0] += 1
            table[slot] = count[0]
        above = int(table[slot]) - 1
    for key in new:
        slot = _find(keys, table, key)
        if not table[slot]:
            keys[count[0]] = key
            parents[count[0]] = above
            count[0] += 1
            table[slot] = count[0]
        above = int(table[slot]) - 1
    depth = 0
    at = above
    while at >= 0:
        depth += 1
        at = int(parents[at])
    return is_known, depth, above


@compiled_allocating
def _walk(keys, parents, last, chain):  # type: ignore[no-untyped-def]
    at = last
    for position in range(len(chain) - 1, -1, -1):
        chain[position] = keys[at]
        at = int(parents[at])
