"""Moves the bytes of a batch from one storage to another, within time and without waiting for what hangs."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kvcm_platform.transfer import TransferError, Transfers

CALL_SECONDS = 20.0
"""Longest time for the bytes of one batch on one storage."""
AT_ONCE = 3
"""Batches that are read from, or written to, one storage at the same time."""

T = TypeVar("T")

_hanging: dict[str, threading.Thread] = {}
"""Calls that did not end in time, by storage: a thread in a dead mount cannot be ended, so none is added."""
_hanging_lock = threading.Lock()


class StorageTroubleError(Exception):
    """A storage as a whole does not work now; the sentence names it."""


class CopyBytes:
    """The transfers of one round. Bytes are compared in memory, so a copy costs twice its batch at most."""

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._limits: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._left_hanging = False

    async def move(
        self, source: str, target: str, pairs: Sequence[tuple[str, str]], *, is_verified: bool
    ) -> list[str]:
        """Copies (from URI, to URI) pairs; one reason each, empty where the bytes are there.

        Raises StorageTroubleError where a storage does not answer, or takes nothing of the batch.
        """
        reasons = [""] * len(pairs)
        read = await self._call(source, lambda: self._transfers.read_batch([uri for uri, _ in pairs]))
        _note(reasons, range(len(pairs)), read)
        contents = {at: found for at, found in enumerate(read) if isinstance(found, bytes)}
        left = list(contents)
        if not left:
            return reasons
        targets = [pairs[at][1] for at in left]
        blocks = [(pairs[at][1], content) for at, content in contents.items()]
        written = await self._call(target, lambda: self._transfers.write_batch(blocks))
        _note(reasons, left, written)
        if all(reasons[at] for at in left):
            raise StorageTroubleError(f"{target}: {reasons[left[0]]}")
        if is_verified:
            found = await self._call(target, lambda: self._transfers.read_batch(targets))
            for at, back in zip(left, found, strict=True):
                if not reasons[at] and back != contents[at]:
                    reasons[at] = _reason(back) or "the copy reads back differently"
        return reasons

    async def close(self) -> None:
        """Transfers with a call that hangs are left alone: to close them is to wait for it."""
        if not self._left_hanging:
            await asyncio.to_thread(self._transfers.close)

    async def _call(self, storage: str, work: Callable[[], Sequence[T]]) -> Sequence[T]:
        async with self._limits[storage]:
            with _hanging_lock:
                stuck = _hanging.get(storage)
                if stuck is not None and stuck.is_alive():
                    raise StorageTroubleError(f"{storage}: an earlier transfer still hangs")
            return await self._in_thread(storage, work)

    async def _in_thread(self, storage: str, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = (work(), None)
            except Exception as error:  # noqa: BLE001 (given to the caller)
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop ended meanwhile: nobody waits any more
                loop.call_soon_threadsafe(settle, *outcome)

        thread = threading.Thread(target=run, name=f"copy {storage}", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await future
        except TimeoutError as error:
            self._left_hanging = True
            with _hanging_lock:
                _hanging[storage] = thread
            raise StorageTroubleError(f"{storage}: no answer within {CALL_SECONDS:g} s") from error
        except (OSError, ValueError) as error:
            raise StorageTroubleError(f"{storage}: {error}") from error


def _reason(result: object) -> str:
    return result.reason if isinstance(result, TransferError) else ""


def _note(reasons: list[str], places: Sequence[int], results: Sequence[object]) -> None:
    for at, result in zip(places, results, strict=True):
        if not reasons[at]:
            reasons[at] = _reason(result)
