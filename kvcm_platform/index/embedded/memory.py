"""A ByteStore in memory. A snapshot file keeps it over an orderly stop.

A crash costs what was written since the last snapshot. Who must not lose something asks for `sync`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import structlog

from . import snapshot
from .byte_store import BEGIN, Mutation
from .file_lock import FileLock

BUCKETS = 256
PAUSE_PER_SAVE = 9.0
"""A large index is saved less often: saving takes a tenth of the time at most."""
PAUSE_PER_SYNC = 1.0
"""Where callers wait for snapshots, half of the time."""
REFUSE_AFTER_SECONDS = 5.0
"""Without a snapshot for so long since the first that failed, the store is in `trouble`."""
NOTHING: Mapping[bytes, bytes] = {}

log = structlog.get_logger(__name__)


class MemoryStore:
    """Without `path` nothing is kept."""

    def __init__(self, path: Path | None = None, interval_seconds: float = 1.0) -> None:
        self._path = path
        self._interval = interval_seconds
        self._tables: dict[bytes, dict[int, dict[bytes, bytes]]] = {}
        self._changes = self._saved = 0
        self._is_closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._save_seconds = 0.0
        self._free_at = 0.0
        """When the next snapshot may begin (time.monotonic)."""
        self._failing_since: float | None = None
        self._reason = ""
        self._lock: FileLock | None = None

    async def open(self) -> MemoryStore:
        """`load` and `start`."""
        await asyncio.to_thread(self.load)
        self.start()
        return self

    def load(self) -> None:
        """Takes the snapshot for this process and reads it. A missing or broken one is reported: empty then.

        Raises DomainError(IN_USE) while another store has the snapshot, OSError.
        """
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self._path.with_name(self._path.name + ".lock"))
        try:
            for name, key, value in snapshot.load(self._path):
                self._set(name, key, value)
        except FileNotFoundError:
            log.info("no snapshot yet: the index begins empty", path=str(self._path))
        except (snapshot.SnapshotBroken, OSError) as error:
            path, reason = str(self._path), str(error)
            log.error("the snapshot cannot be used: the index begins empty", path=path, reason=reason)
            self._path.replace(self._path.with_name(self._path.name + ".broken"))

    def start(self) -> None:
        """Begins to write a snapshot each interval."""
        if self._path is not None:
            self._task = asyncio.create_task(self._save_now_and_then())

    def get(self, table: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        rows = self._tables.get(table)
        if rows is None:
            return [None] * len(keys)
        return [rows.get(_bucket(key), NOTHING).get(key) for key in keys]

    def write(self, mutations: Iterable[Mutation]) -> None:
        self._changes += 1
        for table, key, value in mutations:
            self._set(table, key, value)

    def _set(self, table: bytes, key: bytes, value: bytes | None) -> None:
        bucket = _bucket(key)
        if value is not None:
            self._tables.setdefault(table, {}).setdefault(bucket, {})[key] = value
            return
        rows = self._tables.get(table, {})
        held = rows.get(bucket)
        if held is not None and held.pop(key, None) is not None and not held:
            del rows[bucket]
            if not rows:
                del self._tables[table]

    def items(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([item for rows in self._tables.get(table, {}).values() for item in rows.items()])

    def page(self, table: bytes, cursor: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Bucket by bucket: keys are in the bucket of their last byte, whatever comes and goes."""
        found: list[tuple[bytes, bytes]] = []
        rows = self._tables.get(table, {})
        for bucket in range(int(cursor or b"0"), BUCKETS):
            held = rows.get(bucket, NOTHING)
            if found and len(found) + len(held) > limit:
                return found, b"%d" % bucket
            found += held.items()
        return found, BEGIN

    def recover(self) -> None:
        """Snapshots are tried again by themselves."""

    @property
    def is_lost(self) -> bool:
        return False

    @property
    def trouble(self) -> str:
        since = self._failing_since
        if since is None or time.monotonic() - since < REFUSE_AFTER_SECONDS:
            return ""
        return f"the snapshot cannot be written: {self._reason}"

    async def sync(self) -> None:
        """Without a file nothing survives, so there is nothing to wait for."""
        await self.save()

    async def save(self) -> None:
        """Returns when a snapshot with everything written so far is on the disk. Raises OSError.

        Callers share one: they join a snapshot that begins after they came, or begin the next.
        """
        wanted = self._changes
        while self._path is not None and self._saved < wanted:
            if self._saving is None:
                self._saving = asyncio.create_task(self._save(self._path))
                # Reported where it happens; callers may be gone by then.
                self._saving.add_done_callback(lambda task: task.cancelled() or task.exception())
            # A caller that is cancelled leaves the writing to go on: no two may write the file.
            await asyncio.shield(self._saving)

    async def _save(self, path: Path) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._free_at - time.monotonic()):
                    await self._is_closing.wait()
            begun = time.monotonic()
            try:
                await self._write_snapshot(path)
            finally:
                self._save_seconds = time.monotonic() - begun
                self._free_at = time.monotonic() + self._save_seconds * PAUSE_PER_SYNC
        except OSError as error:
            self._reason = str(error)
            if self._failing_since is None:
                self._failing_since = time.monotonic()
                log.error("the snapshot cannot be written", path=str(path), reason=self._reason)
            raise
        finally:
            self._saving = None
        if self._failing_since is not None:
            self._failing_since = None
            log.info("the snapshot is written again", path=str(path))

    async def _write_snapshot(self, path: Path) -> None:
        changes = self._changes
        # Copies of dictionaries hold the loop for some 20 ms a million keys; what is in them never changes.
        frozen = {table: [held.copy() for held in rows.values()] for table, rows in self._tables.items()}
        items = ((table, *item) for table, rows in frozen.items() for held in rows for item in held.items())
        await asyncio.to_thread(snapshot.save, path, items)
        self._saved = changes

    async def _save_now_and_then(self) -> None:
        pause = self._interval
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._is_closing.wait()
            pause = self._interval
            with contextlib.suppress(OSError):
                await self.save()
                pause = max(self._interval, self._save_seconds * PAUSE_PER_SAVE)

    async def close(self) -> None:
        """Writes the last snapshot. Raises OSError."""
        self._is_closing.set()
        if self._task is not None:
            await self._task
        try:
            await self.save()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None


def _bucket(key: bytes) -> int:
    return key[-1] if key else 0
