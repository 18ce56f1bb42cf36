"""A compact set of names of stored objects: eight bytes each, and never more than fit."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import xxhash

MAX_NAMES = 8_000_000


class Names:
    """Names whose hash leaves `rest` when divided by `parts`. Two names with one hash count as the same."""

    def __init__(self, rest: int = 0, parts: int = 1, *, at_most: int = MAX_NAMES) -> None:
        self.rest, self.parts = rest, parts
        self._at_most = at_most
        self._raw = array("Q")
        self._sorted = np.empty(0, dtype=np.uint64)

    def add(self, name: str) -> tuple[int, int] | None:
        """Returns the (rest, parts) of names that do not fit any more and are left out; None while all do."""
        number = _hash(name)
        if number % self.parts == self.rest:
            self._raw.append(number)
        if len(self._raw) <= self._at_most:
            return None
        self._settle()
        if len(self._sorted) <= self._at_most * 3 // 4:
            self._raw = array("Q", self._sorted.tobytes())
            return None
        left_out = (self.rest + self.parts, self.parts * 2)
        self.parts *= 2
        kept = self._sorted[self._sorted % np.uint64(self.parts) == np.uint64(self.rest)]
        self._raw = array("Q", kept.tobytes())
        return left_out

    def _settle(self) -> None:
        """Names that were added twice count once."""
        self._sorted = np.unique(np.frombuffer(self._raw, dtype=np.uint64)) if self._raw else self._sorted[:0]

    def finish(self) -> None:
        """All names are in: from here on they are looked up."""
        self._settle()
        self._raw = array("Q")

    def known(self, names: Sequence[str]) -> list[bool | None]:
        """Whether each name is in the set; None for one of another part."""
        hashes = np.array([_hash(name) for name in names], dtype=np.uint64)
        is_mine = hashes % np.uint64(self.parts) == np.uint64(self.rest)
        if not len(self._sorted):
            return [False if mine else None for mine in is_mine.tolist()]
        places = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        is_known = self._sorted[places] == hashes
        pairs = zip(is_mine.tolist(), is_known.tolist(), strict=True)
        return [found if mine else None for mine, found in pairs]


def _hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode(errors="surrogateescape"))
