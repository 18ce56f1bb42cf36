"""`mooncake`: objects in a Mooncake store, whose master is asked over HTTP and over its own protocol.

The store's client lives in a process of its own (`transfer.mooncake_child`), so a call ends in
time whatever the master does. Objects may vanish: the store evicts by itself, and its memory is
gone with its master or with the process that lent it.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import DataUri
from kvcm_platform.transfer.mooncake_store import (
    BUSY,
    HAS_LEASE,
    MISSING,
    StoreAway,
    StoreSettings,
    said,
)

from .backend import (
    Capabilities,
    FreedObject,
    Ledgers,
    ProbeOrder,
    ProbeResult,
    StorageKind,
    StoredObject,
)
from .mooncake_clients import CALLS_AT_ONCE, CLIENTS
from .mooncake_marker import KEY, claimed_mark, renewed_mark, try_out
from .mooncake_master import Master

CALL_SECONDS = 5.0
"""Time limit of one call on the store, a batch of objects."""
DELETE_SECONDS = 10.0
"""Time limit of `delete`; what is left then is postponed."""
LEASE_SECONDS = 2.0
"""How long `delete` waits for leases of readers. A master gives them for ten seconds by default, so
most are left to the next try; who waits here keeps deletions on other storages waiting."""
BATCH_OBJECTS = 512
FULL_RATIO = 0.85
"""A store evicts by itself from 90 % on (its `eviction_high_watermark_ratio`), and nobody tells the index.
So it takes no more new blocks well before that, with room for what comes in between two probes."""
_TRY_AGAIN = BUSY | {HAS_LEASE}
_NOT_DONE = "not done in time"

T = TypeVar("T")


class MooncakeBackend:
    """`DataStorageBackend` over one store."""

    def __init__(self, entry: StorageEntry, ledgers: Ledgers) -> None:
        self.entry = entry
        self._settings = StoreSettings.of(entry.spec)
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix=f"mooncake-{entry.name}")

    async def open(self) -> None:
        master = self._master()

        def mark() -> None:
            master.require_service(CALL_SECONDS)
            segments = master.segments(CALL_SECONDS)
            with CLIENTS.of(self._settings) as client:
                renewed_mark(client, segments, CALL_SECONDS)

        await self._run(mark)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def usage_ratio(self) -> float | None:
        figures = await self._run(self._master().figures, CALL_SECONDS)
        return figures.used_bytes / figures.capacity_bytes if figures.capacity_bytes else None

    async def exist(self, uris: Sequence[DataUri]) -> list[bool]:
        """As the interface. It leaves no lease on objects: the master is asked first, over HTTP.

        The store takes its own question for a use of the object, and is the one to believe that one is
        gone: behind the master's address may be one that waits to take over.
        """
        keys = [_key(uri) for uri in uris]
        present = await self._run(self._master().present, keys, CALL_SECONDS)
        missed = list(dict.fromkeys(key for key in keys if key not in present))
        for start in range(0, len(missed), BATCH_OBJECTS):
            part = missed[start : start + BATCH_OBJECTS]
            codes = await self._call("exist", part, CALL_SECONDS)
            bad = next((code for code in codes if code < 0), None)
            if bad is not None:
                raise OSError(errno.EIO, said(bad), self.entry.name)
            present.update(key for key, code in zip(part, codes, strict=True) if code == 1)
        return [key in present for key in keys]

    async def delete(self, objects: Sequence[FreedObject]) -> list[str]:
        began = time.monotonic()
        reasons = [_NOT_DONE] * len(objects)
        waiting = list(range(len(objects)))
        pause = 0.05
        while waiting:
            try:
                waiting = await self._remove(objects, waiting, reasons, began + DELETE_SECONDS)
            except OSError as error:
                for index in waiting:
                    if reasons[index] == _NOT_DONE:
                        reasons[index] = str(error)
                break
            if not waiting or time.monotonic() + pause > began + LEASE_SECONDS:
                break
            await asyncio.sleep(pause)
            pause *= 2
        return reasons

    async def _remove(
        self, objects: Sequence[FreedObject], indexes: list[int], reasons: list[str], deadline: float
    ) -> list[int]:
        """Removes objects and writes down how it went; those that may go a little later. Raises OSError."""
        later: list[int] = []
        for start in range(0, len(indexes), BATCH_OBJECTS):
            part = indexes[start : start + BATCH_OBJECTS]
            seconds = min(CALL_SECONDS, deadline - time.monotonic())
            if seconds <= 0:
                break
            codes = await self._call("remove", [_key(objects[index].uri) for index in part], seconds)
            for index, code in zip(part, codes, strict=True):
                reasons[index] = "" if code in {0, MISSING} else said(code)
                if code in _TRY_AGAIN:
                    later.append(index)
        return later

    async def settled(self, objects: Sequence[FreedObject]) -> None:
        """Nothing is noted about deletions."""

    async def objects(self) -> AsyncIterator[StoredObject]:
        keys = self._master().keys(CALL_SECONDS)
        while batch := await self._run(_next_of, keys):
            for key in batch:
                if key != KEY:
                    yield self._object(key)

    def _object(self, key: str) -> StoredObject:
        """Neither size nor time of an object come with its name."""
        uri = DataUri("mooncake", self.entry.name, "/", 0, 0, {"key": key})
        *instance, _, block = ["", "", *key.rsplit("/", 2)][-3:]
        is_ours = bool(instance[0]) and "." in block
        return StoredObject(uri, 0, None, is_ours, instance[0] if is_ours else "")

    async def claim(self, owner: str) -> str:
        def write() -> str:
            with CLIENTS.of(self._settings) as client:
                return claimed_mark(client, owner, CALL_SECONDS).owner

        return await self._run(write)

    def _master(self) -> Master:
        try:
            return Master.of(self.entry)
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error), self.entry.name) from error

    async def _call(self, verb: str, keys: Sequence[str], seconds: float) -> list[int]:
        def call() -> list[int]:
            with CLIENTS.of(self._settings) as client:
                return client.call(verb, keys, seconds)

        return await self._run(call)

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Runs a call, which has a time limit of its own, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


def _key(uri: DataUri) -> str:
    return uri.params.get("key", "")


def _next_of(keys: Iterator[str]) -> list[str]:
    return list(islice(keys, BATCH_OBJECTS))


def probe(entry: StorageEntry, order: ProbeOrder) -> ProbeResult:
    """Asks the master how it is, then looks for the marker through the store. Raises OSError."""
    # A little less: who waits for the probe should hear what it has to say.
    deadline = time.monotonic() + 0.8 * order.seconds

    def left() -> float:
        return max(0.05, deadline - time.monotonic())

    master = Master.of(entry)
    # A master that hangs is not worth a client, which would hang as well.
    master.require_service(min(1.0, left()))
    figures, segments = master.figures(left()), master.segments(left())
    used, capacity = figures.used_bytes, figures.capacity_bytes
    if not segments or not capacity:
        return ProbeResult(
            True,
            "no process lends memory to the store",
            is_full=True,
            used_bytes=used,
            capacity_bytes=capacity,
            dropped_objects=figures.evicted_objects,
        )
    life = _life(entry, segments, left(), order)
    is_full = used >= FULL_RATIO * capacity
    return ProbeResult(
        True,
        f"{used} of {capacity} bytes are used" if is_full else "",
        is_full=is_full,
        used_bytes=used,
        capacity_bytes=capacity,
        content_life=life,
        dropped_objects=figures.evicted_objects,
    )


def _life(entry: StorageEntry, segments: Sequence[str], seconds: float, order: ProbeOrder) -> str:
    """Sends bytes through the store and says whose life it is in; a trial leaves nothing behind."""
    try:
        with CLIENTS.of(StoreSettings.of(entry.spec)) as client:
            if order.is_trial:
                try_out(client, seconds)
                return ""
            return renewed_mark(client, segments, seconds, order.owner).life
    except StoreAway as error:
        raise OSError(errno.ETIMEDOUT, str(error)) from error


def target(entry: StorageEntry) -> str:
    """The master's address. Raises ValueError."""
    return Master.of(entry).address


KIND = StorageKind(
    Capabilities(has_capacity=True, keeps_write_times=False, may_lose_content=True),
    MooncakeBackend,
    probe,
    target,
)
