"""A ByteStore in a RocksDB folder: persistent, for one process at a time.

Every write goes to RocksDB's log before it returns, so a killed process loses nothing; `sync`
brings the log to the disk, for a machine that loses its power.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import rocksdict

from kvcm_platform.core.errors import Code, DomainError

from .byte_store import TABLE_BYTES, Mutation

READ_AHEAD = 4 << 20
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

    def get(self, name: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        found = self._db.get([name + key for key in keys])
        return cast(list[bytes | None], found)

    def write(self, mutations: Iterable[Mutation]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for name, key, value in mutations:
            if value is None:
                batch.delete(name + key)
            else:
                batch.put(name + key, value)
        self._db.write(batch)

    def items(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        options = rocksdict.ReadOptions()
        options.set_readahead_size(READ_AHEAD)
        rows = self._db.items(from_key=name, read_opt=options)
        for key, value in cast(Iterator[tuple[bytes, bytes]], rows):
            if not key.startswith(name):
                return
            yield key[TABLE_BYTES:], value

    async def sync(self) -> None:
        await asyncio.to_thread(self._db.flush_wal, True)

    async def close(self) -> None:
        await asyncio.to_thread(self._db.close)
