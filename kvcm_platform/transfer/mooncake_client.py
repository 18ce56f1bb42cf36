"""A client of Mooncake's store whose calls end in time: it lives in a child process that can be killed.

A call that takes too long, or under which the child dies, costs that child; the next call starts
another. Where the store gave no answer, calls fail at once for a while, and then one tries it for
all, instead of waiting each for itself.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .mooncake_child import StoreChild
from .mooncake_store import MASTER_AWAY, StoreAway, StoreSettings, said

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0


@dataclass(slots=True)
class Window:
    """A part of the buffer that one call has to itself."""

    child: StoreChild
    offset: int
    view: memoryview


class StoreClient:
    """Calls on one store. Safe to share among threads. `window_bytes` = 0: no bytes are moved."""

    def __init__(self, settings: StoreSettings, *, windows: int = 4, window_bytes: int = 0) -> None:
        self._settings = settings
        self._windows = windows
        self.window_bytes = window_bytes
        self._child: StoreChild | None = None
        self._failures = 0
        self._failed_at = 0.0
        self._paused_until = 0.0
        self._reason = ""
        self._is_closed = False
        self._lock = threading.Lock()

    def call(self, verb: str, keys: Sequence[str], seconds: float, **more: Any) -> list[int]:
        """The store's code for each key. Raises StoreAway, after `seconds` at the latest."""
        deadline = time.monotonic() + seconds
        return self._call(self._ready(deadline), verb, keys, deadline, more)

    @contextlib.contextmanager
    def window(self, seconds: float) -> Iterator[Window]:
        """A part of the buffer for `move`. Raises StoreAway if none comes free in `seconds`."""
        deadline = time.monotonic() + seconds
        child = self._ready(deadline)
        try:
            number = child.free.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise StoreAway("all transfers to the store are taken") from None
        start = number * self.window_bytes
        try:
            yield Window(child, start, child.view[start : start + self.window_bytes])
        finally:
            child.free.put(number)

    def move(
        self,
        window: Window,
        verb: str,
        keys: Sequence[str],
        sizes: Sequence[int],
        seconds: float,
        **more: Any,
    ) -> list[int]:
        """Puts or gets objects that lie one after the other in the window. Raises StoreAway."""
        offsets, at = [], window.offset
        for size in sizes:
            offsets.append(at)
            at += size
        more = {**more, "offsets": offsets, "sizes": list(sizes)}
        return self._call(window.child, verb, keys, time.monotonic() + seconds, more)

    def close(self) -> None:
        """Ends the child; calls that are under way fail."""
        with self._lock:
            self._is_closed = True
            child, self._child = self._child, None
        if child is not None:
            child.close()

    def _call(
        self, child: StoreChild, verb: str, keys: Sequence[str], deadline: float, more: Mapping[str, Any]
    ) -> list[int]:
        began = time.monotonic()
        try:
            codes = child.call({"verb": verb, "keys": list(keys), **more}, deadline)
        except StoreAway as error:
            self._retire(child, str(error))
            raise
        is_away = bool(codes) and MASTER_AWAY.issuperset(codes)
        with self._lock:
            if is_away and began >= self._failed_at:
                self._note_failure(said(codes[0]))
            elif not is_away:
                self._failures, self._paused_until = 0, 0.0
        if is_away:
            # The child stays: it finds back to its master by itself.
            raise StoreAway(said(codes[0]))
        return codes

    def _ready(self, deadline: float) -> StoreChild:
        with self._lock:
            if self._is_closed:
                raise StoreAway("the client is closed")
            if self._child is not None and self._child.is_over:
                # It died between two calls, which is nobody's failure.
                self._child = None
            if self._failures:
                if time.monotonic() < self._paused_until:
                    raise StoreAway(f"{self._reason}; the next try is soon")
                # This caller tries for all; how it goes ends the pause or begins the next one.
                self._paused_until = deadline
            if self._child is None:
                self._child = StoreChild(self._settings, self._windows, self.window_bytes)
            child = self._child
        try:
            child.await_start(deadline)
        except StoreAway as error:
            # A start that merely outlasts this caller's time goes on for the next one.
            if child.is_over:
                self._retire(child, str(error))
            raise
        return child

    def _retire(self, child: StoreChild, reason: str) -> None:
        with self._lock:
            self._lose(child, reason)
        child.kill()

    def _lose(self, child: StoreChild, reason: str) -> None:
        """Of the calls that fail with one child the first one counts."""
        if self._child is child:
            self._child = None
            self._note_failure(reason)

    def _note_failure(self, reason: str) -> None:
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10))
        self._failures += 1
        self._reason = reason
        self._failed_at = time.monotonic()
        self._paused_until = self._failed_at + pause
