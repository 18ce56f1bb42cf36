"""Dense path ids: a number for each distinct (instance, chain of keys), in order of first appearance.

Children of a block are a list of siblings (OPTIMIZER.md 3): nearly every block has one child, so that a step
is one comparison, and the ids of a chain lie side by side. Blocks with more than MANY children, and first
blocks, are found by an open-addressing hash table instead. Below a block that the request itself brought
nothing has to be looked up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled_allocating
from .columns import GrowingColumn
from .errors import TraceReadError

MANY = 4
_FIRST_BLOCKS = 1 << 16
TABLE_ENTRIES_A_REQUEST = MANY + 3
"""A request adds at most this many to the table: its first block, and one block that gets too many children
(it and its siblings); what it brings below that has one child each."""


class PathIds:
    """Gives path ids; its columns grow as files in a directory.

    `finish` leaves parent.npy, depth.npy, key.npy and path_instance.npy there.
    """

    def __init__(self, directory: Path, *, max_paths: int = 2**31 - 2) -> None:
        self._max_paths = max_paths
        self._size = np.zeros(2, dtype=np.int64)
        """Paths, and entries of the table."""
        self._parent = GrowingColumn(directory / "parent.npy", np.int32, _FIRST_BLOCKS)
        self._depth = GrowingColumn(directory / "depth.npy", np.int32, _FIRST_BLOCKS)
        self._key = GrowingColumn(directory / "key.npy", np.int64, _FIRST_BLOCKS)
        self._instance = GrowingColumn(directory / "path_instance.npy", np.int32, _FIRST_BLOCKS)
        self._child = GrowingColumn(directory / "child.scratch", np.int32, _FIRST_BLOCKS)
        self._sibling = GrowingColumn(directory / "sibling.scratch", np.int32, _FIRST_BLOCKS)
        self._columns = [self._parent, self._depth, self._key, self._instance, self._child, self._sibling]
        self._directory = directory
        self._tables = 0
        self._table = self._new_table(4 * _FIRST_BLOCKS)

    @property
    def paths(self) -> int:
        return int(self._size[0])

    def assign(
        self, keys: NDArray[np.int64], offset: NDArray[np.int64], instance: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Path ids of requests r, with chains keys[offset[r]:offset[r + 1]] in the namespace instance[r]."""
        path = np.empty(len(keys), dtype=np.int32)
        requests, done = len(instance), 0
        while done < requests:
            done = self._assign(keys, offset, instance, path, done)
            if done < requests:
                longest = int(offset[done + 1] - offset[done])
                self._make_room(longest)
        return path

    def _assign(self, keys: Any, offset: Any, instance: Any, path: Any, begin: int) -> int:
        return int(
            _assign(
                keys, offset, instance, path, begin, self._size, self._parent.values, self._depth.values,
                self._key.values, self._instance.values, self._child.values, self._sibling.values,
                self._table.values,
            )
        )  # fmt: skip

    def finish(self) -> int:
        """Makes the columns whole and returns the number of paths."""
        for column in self._columns[:4]:
            column.close(self.paths)
        for column in self._columns[4:]:
            column.discard()
        self._table.discard()
        return self.paths

    def _make_room(self, blocks: int) -> None:
        wanted = self.paths + blocks
        if wanted > self._max_paths:
            raise TraceReadError("too_many_blocks", f"more than {self._max_paths:,} distinct blocks")
        for column in self._columns:
            column.reserve(wanted, self._max_paths)
        if 2 * (self._size[1] + TABLE_ENTRIES_A_REQUEST) > len(self._table.values):
            table = self._new_table(2 * len(self._table.values))
            _rehash(
                self._table.values,
                table.values,
                self._parent.values,
                self._key.values,
                self._instance.values,
            )
            self._table.discard()
            self._table = table

    def _new_table(self, entries: int) -> GrowingColumn:
        self._tables += 1
        return GrowingColumn(self._directory / f"table-{self._tables}.scratch", np.int32, entries)


@compiled_allocating
def _slot(parent, instance, key, mask):  # type: ignore[no-untyped-def]
    """Where to begin to look for a child: splitmix64's finalizer over both numbers."""
    h = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(
        parent + 1 if parent >= 0 else -instance - 1
    )
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((h ^ (h >> np.uint64(31))) & np.uint64(mask))


@compiled_allocating
def _rehash(old, table, parent, key, instance):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    for entry in old:
        if entry:
            node = entry - 1
            slot = _slot(parent[node], instance[node], key[node], mask)
            while table[slot]:
                slot = (slot + 1) & mask
            table[slot] = entry


@compiled_allocating
def _assign(  # type: ignore[no-untyped-def]
    keys, offset, instance, path, begin, size, parent, depth, key, path_instance, child, sibling, table
):
    """Goes on from request `begin`; returns the first that has no room left, or the number of requests.

    child[p]: 1 + the last child found or added of p, or 0; negative: p has many children, in the table.
    sibling[p]: 1 + the next child of p's parent. table: 1 + a path, or 0.
    """
    requests = len(instance)
    nodes = size[0]
    entries = size[1]
    mask = len(table) - 1
    r = begin
    while r < requests:
        first = offset[r]
        last = offset[r + 1]
        if nodes + (last - first) > len(parent) or 2 * (entries + TABLE_ENTRIES_A_REQUEST) > len(table):
            break
        space = instance[r]
        above = -1
        is_new = False
        for i in range(first, last):
            wanted = keys[i]
            found = -1
            in_table = above < 0
            if not is_new and not in_table:
                head = child[above]
                if head < 0:
                    in_table = True
                else:
                    brothers = 0
                    at = head
                    while at > 0:
                        if key[at - 1] == wanted:
                            found = at - 1
                            break
                        brothers += 1
                        at = sibling[at - 1]
                    if found < 0 and brothers >= MANY:
                        # The fifth child: from here on all of them are in the table.
                        in_table = True
                        at = head
                        while at > 0:
                            slot = _slot(above, space, key[at - 1], mask)
                            while table[slot]:
                                slot = (slot + 1) & mask
                            table[slot] = at
                            entries += 1
                            at = sibling[at - 1]
                        child[above] = -1
            slot = 0
            if in_table and not is_new:
                slot = _slot(above, space, wanted, mask)
                while table[slot]:
                    node = table[slot] - 1
                    if key[node] == wanted and parent[node] == above and path_instance[node] == space:
                        found = node
                        break
                    slot = (slot + 1) & mask
            if found < 0:
                found = nodes
                nodes += 1
                parent[found] = above
                depth[found] = depth[above] + 1 if above >= 0 else 0
                key[found] = wanted
                path_instance[found] = space
                child[found] = 0
                sibling[found] = 0
                if in_table and not is_new:
                    table[slot] = found + 1
                    entries += 1
                else:
                    if not is_new:
                        sibling[found] = child[above]
                    child[above] = found + 1
                is_new = True
            path[i] = found
            above = found
        r += 1
    size[0] = nodes
    size[1] = entries
    return r
