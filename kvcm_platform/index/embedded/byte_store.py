"""Bytes by key in this process, in tables, every write in one step (`ByteStore`).

Two forms: `memory.MemoryStore` with an optional snapshot file, `rocks.RocksStore` on disk. Calls
are synchronous and short (microseconds, at most 512 keys or so), so nothing comes between two
lines of whoever uses one from the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

Mutation = tuple[bytes, bytes, bytes | None]
"""Table (at most 255 bytes), key, value; None = the key goes."""

BEGIN = b""
"""Cursor of the first page, and what the last page gives as the next one."""


class ByteStore(Protocol):
    """All calls raise OSError when the store cannot be read or written."""

    def get(self, table: bytes, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def write(self, mutations: Iterable[Mutation]) -> None:
        """All of them or, if the process dies, none."""
        ...

    def items(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What the table held when the iteration began; it may be changed meanwhile."""
        ...

    def page(self, table: bytes, cursor: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """About `limit` items, and the cursor of the next page.

        Cursors outlive the process. A key that is there all the time is on exactly one page; a page may
        be empty.
        """
        ...

    async def sync(self) -> None:
        """Returns when everything written so far would survive a crash of the machine."""
        ...

    async def close(self) -> None: ...
