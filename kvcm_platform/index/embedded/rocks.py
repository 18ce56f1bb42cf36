"""A ByteStore in a RocksDB folder: persistent, for one process at a time.

Every write goes to RocksDB's log before it returns, so a killed process loses nothing; `sync`
brings the log to the disk, for a machine that loses its power.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

import rocksdict

from kvcm_platform.core.errors import Code, DomainError

from .byte_store import BEGIN, Mutation

OPEN_FILES = 512
LOG_FILES = 3


class RocksStore:
    def __init__(self, folder: Path) -> None:
        """Opens or creates it. Raises DomainError: IN_USE while another process has it, else IO_ERROR."""
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_max_open_files(OPEN_FILES)
        options.set_keep_log_file_num(LOG_FILES)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = rocksdict.Rdict(str(folder), options)
        except Exception as error:  # rocksdict raises no narrower class
            if "lock" in str(error).lower():
                raise DomainError(
                    Code.IN_USE, f"{folder} is open already: a rocksdb index belongs to one process"
                ) from error
            raise DomainError(Code.IO_ERROR, f"{folder} cannot be opened: {error}") from error

    def get(self, table: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        prefix = _prefix(table)
        try:
            found = self._db.get([prefix + key for key in keys])
        except Exception as error:  # rocksdict raises no narrower class
            raise OSError(f"rocksdb cannot read: {error}") from error
        return cast(list[bytes | None], found)

    def write(self, mutations: Iterable[Mutation]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for table, key, value in mutations:
            if value is None:
                batch.delete(_prefix(table) + key)
            else:
                batch.put(_prefix(table) + key, value)
        try:
            self._db.write(batch)
        except Exception as error:  # as above
            raise OSError(f"rocksdb cannot write: {error}") from error

    def items(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._from(table, b"")

    def _from(self, table: bytes, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        prefix = _prefix(table)
        rows = self._db.items(from_key=prefix + key)
        for name, value in cast(Iterator[tuple[bytes, bytes]], rows):
            if not name.startswith(prefix):
                return
            yield name[len(prefix) :], value

    def page(self, table: bytes, cursor: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """In the order of keys; a cursor is `k` and the next page's first key."""
        found = list(islice(self._from(table, cursor[1:]), limit + 1))
        return (found[:limit], b"k" + found[limit][0]) if len(found) > limit else (found, BEGIN)

    async def sync(self) -> None:
        await asyncio.to_thread(self._db.flush_wal, True)

    async def close(self) -> None:
        await asyncio.to_thread(self._db.close)


def _prefix(table: bytes) -> bytes:
    """A table's name behind its length, so that none is the beginning of another one's keys."""
    return len(table).to_bytes(1) + table
