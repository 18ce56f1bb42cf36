"""Bytes by key in this process, in tables, every write in one step (`ByteStore`).

Two forms: `memory.MemoryStore` with an optional snapshot file, `rocks.RocksStore` on disk. Calls
are synchronous and short (microseconds, at most 512 keys or so), so nothing comes between two
lines of whoever uses one from the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

Mutation = tuple[bytes, bytes, bytes | None]
"""Table, key, value; None = the key goes."""

TABLE_BYTES = 9
"""Length of every table's name, so that none is the beginning of another one's keys."""


def table(kind: bytes, owner: int = 0) -> bytes:
    """Name of a table: a letter and the number of what it belongs to."""
    return kind + owner.to_bytes(8)


class ByteStore(Protocol):
    def get(self, name: bytes, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def write(self, mutations: Iterable[Mutation]) -> None:
        """All of them or, if the process dies, none."""
        ...

    def items(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What the table held when the iteration began; it may be changed meanwhile."""
        ...

    async def sync(self) -> None:
        """Returns when everything written so far would survive a crash of the machine."""
        ...

    async def close(self) -> None: ...
