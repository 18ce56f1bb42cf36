"""A ByteStore in memory. A snapshot file keeps it over an orderly stop; a crash costs the last interval."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import structlog

from . import snapshot
from .byte_store import Mutation

log = structlog.get_logger(__name__)


class MemoryStore:
    """Without `path` nothing is kept. `open` reads the snapshot and begins to write one each interval."""

    def __init__(self, path: Path | None = None, interval_seconds: float = 1.0) -> None:
        self._path = path
        self._interval = interval_seconds
        self._tables: dict[bytes, dict[bytes, bytes]] = {}
        self._changes = self._saved = 0
        self._is_closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> MemoryStore:
        """A missing or broken snapshot is reported, and the store begins empty."""
        if self._path is None:
            return self
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            for name, key, value in await asyncio.to_thread(snapshot.load, self._path):
                self._tables.setdefault(name, {})[key] = value
        except FileNotFoundError:
            log.info("no snapshot yet: the index begins empty", path=str(self._path))
        except (snapshot.SnapshotBroken, OSError) as error:
            log.error(
                "the snapshot cannot be used: the index begins empty", path=str(self._path), reason=str(error)
            )
            self._path.replace(self._path.with_name(self._path.name + ".broken"))
        self._task = asyncio.create_task(self._save_now_and_then())
        return self

    def get(self, name: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        rows = self._tables.get(name)
        return [None] * len(keys) if rows is None else [rows.get(key) for key in keys]

    def write(self, mutations: Iterable[Mutation]) -> None:
        self._changes += 1
        for name, key, value in mutations:
            if value is not None:
                self._tables.setdefault(name, {})[key] = value
            elif name in self._tables:
                self._tables[name].pop(key, None)
                if not self._tables[name]:
                    del self._tables[name]

    def items(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(list(self._tables.get(name, {}).items()))

    async def sync(self) -> None:
        """Memory is lost with the machine and a snapshot is all that was promised: nothing to wait for."""

    async def save(self) -> None:
        """Writes the snapshot as of now, if anything changed since the last. Raises OSError."""
        if self._path is None or self._changes == self._saved:
            return
        changes = self._changes
        items = [(name, key, value) for name, rows in self._tables.items() for key, value in rows.items()]
        await asyncio.to_thread(snapshot.save, self._path, items)
        self._saved = changes

    async def _save_now_and_then(self) -> None:
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._is_closing.wait()
            try:
                await self.save()
            except OSError as error:
                log.error("the snapshot cannot be written", path=str(self._path), reason=str(error))

    async def close(self) -> None:
        """Writes the last snapshot. Raises OSError."""
        self._is_closing.set()
        if self._task is not None:
            await self._task
        await self.save()
