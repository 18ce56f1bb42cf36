"""A ByteStore in a RocksDB folder: persistent, for one process at a time.

Every write goes to RocksDB's log before it returns, so a killed process loses nothing; `sync`
brings the log to the disk, for a machine that loses its power.

A write that fails, on a full disk for example, leaves RocksDB read-only for good: it would say
"Writer has previous error" until it is opened anew. So the store opens it anew, with back-off and
only when there is room for it; until then reads go on. A write that failed is in no log as a whole,
so it stays undone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

import rocksdict
import structlog

from kvcm_platform.core.errors import Code, DomainError

from .byte_store import BEGIN, Mutation

OPEN_FILES = 512
LOG_FILES = 3
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 8.0
REOPENINGS = 4
"""Failed openings, one after the other, after which the store is lost to this process."""
SPARE_BYTES = 1 << 20
_PROBE = ".room"

log = structlog.get_logger(__name__)


class RocksStore:
    def __init__(self, folder: Path) -> None:
        """Opens or creates it. Raises DomainError: IN_USE while another process has it, else IO_ERROR."""
        self._folder = folder
        self._reason = ""
        """Why the last write failed, while RocksDB takes no other."""
        self._retry_at = 0.0
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._failed_openings = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = _open(folder)
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
        self.recover()
        batch = rocksdict.WriteBatch(raw_mode=True)
        for table, key, value in mutations:
            if value is None:
                batch.delete(_prefix(table) + key)
            else:
                batch.put(_prefix(table) + key, value)
        try:
            self._db.write(batch)
        except Exception as error:  # as above
            self._reason = str(error)
            self._retry_at = time.monotonic() + self._retry_seconds
            log.error("the index cannot be written", folder=str(self._folder), reason=self._reason)
            raise OSError(f"rocksdb cannot write: {error}") from error
        self._retry_seconds = FIRST_RETRY_SECONDS

    def recover(self) -> None:
        """Opens the folder anew when it is time and there is room; this holds the loop for a second or so."""
        if not self._reason:
            return
        if time.monotonic() < self._retry_at or self.is_lost:
            raise OSError(f"rocksdb cannot write: {self._reason}")
        self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)
        try:
            self._check_room()
            self._reopen()
        finally:
            # From the end on: closing after a full disk takes a second.
            self._retry_at = time.monotonic() + self._retry_seconds

    def _reopen(self) -> None:
        with contextlib.suppress(Exception):  # it repeats the error that brought us here
            self._db.close()
        try:
            self._db = _open(self._folder)
        except Exception as error:  # as above
            self._failed_openings += 1
            self._reason = str(error)
            log.error("the index cannot be opened anew", folder=str(self._folder), reason=self._reason)
            raise OSError(f"rocksdb cannot be opened anew: {error}") from error
        self._reason = ""
        self._failed_openings = 0
        log.info("the index can be written again", folder=str(self._folder))

    def _check_room(self) -> None:
        """An opening brings the logs into a table. One that fails half-way leaves nothing to read from."""
        size = SPARE_BYTES + sum(file.stat().st_size for file in self._folder.glob("*.log"))
        probe = self._folder / _PROBE
        file = os.open(probe, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)
            probe.unlink()

    @property
    def trouble(self) -> str:
        """Nothing: writes fail by themselves."""
        return ""

    @property
    def is_lost(self) -> bool:
        return self._failed_openings >= REOPENINGS

    def items(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._from(table, b"")

    def _from(self, table: bytes, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        prefix = _prefix(table)
        try:
            rows = self._db.items(from_key=prefix + key)
        except Exception as error:  # as above
            raise OSError(f"rocksdb cannot read: {error}") from error
        for name, value in cast(Iterator[tuple[bytes, bytes]], rows):
            if not name.startswith(prefix):
                return
            yield name[len(prefix) :], value

    def page(self, table: bytes, cursor: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """In the order of keys; a cursor is `k` and the next page's first key."""
        found = list(islice(self._from(table, cursor[1:]), limit + 1))
        return (found[:limit], b"k" + found[limit][0]) if len(found) > limit else (found, BEGIN)

    async def sync(self) -> None:
        try:
            await asyncio.to_thread(self._db.flush_wal, True)
        except Exception as error:  # as above
            raise OSError(f"rocksdb cannot bring its log to the disk: {error}") from error

    async def close(self) -> None:
        if self.is_lost:
            return
        try:
            await asyncio.to_thread(self._db.close)
        except Exception as error:  # as above
            raise OSError(f"rocksdb cannot be closed in order: {error}") from error


def _open(folder: Path) -> rocksdict.Rdict:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(OPEN_FILES)
    options.set_keep_log_file_num(LOG_FILES)
    return rocksdict.Rdict(str(folder), options)


def _prefix(table: bytes) -> bytes:
    """A table's name behind its length, so that none is the beginning of another one's keys."""
    return len(table).to_bytes(1) + table
