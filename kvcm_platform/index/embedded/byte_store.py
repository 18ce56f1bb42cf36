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

    @property
    def trouble(self) -> str:
        """Why what is written now would not be there after a restart; empty when all is well."""
        ...

    def recover(self) -> None:
        """Tries to be writable again after a write that failed; for a loop that looks after the store.

        Raises OSError while it is not.
        """
        ...

    @property
    def is_lost(self) -> bool:
        """Only a new process can use the store again."""
        ...

    async def sync(self) -> None:
        """Returns when everything written so far would survive a crash of the machine.

        A store that keeps nothing over a restart has nothing to wait for.
        """
        ...

    async def close(self) -> None:
        """Brings what is left to the disk and gives the files back. Raises OSError."""
        ...
