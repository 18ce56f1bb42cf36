"""Progress that costs nothing when nobody looks, and is told no more often than somebody can look."""

from __future__ import annotations

import time

from kvcm_platform.optimizer.curve import Progress

_SECONDS = 0.1


class Throttle:
    """Passes a share on at most every 0.1 s, mapped into `begin`..`end` of the whole work."""

    def __init__(self, on_progress: Progress | None, begin: float = 0.0, end: float = 1.0) -> None:
        self._on_progress = on_progress
        self._begin, self._width = begin, end - begin
        self._next = 0.0

    def __call__(self, share: float) -> None:
        if self._on_progress is None:
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SECONDS
            self._on_progress(self._begin + self._width * share)
