"""Store clients of this process: one a store, kept while they are used and a little longer.

Deletions come in many short runs, and a client is a process that takes half a second to start.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvcm_platform.transfer.mooncake_client import StoreClient
from kvcm_platform.transfer.mooncake_store import StoreSettings

IDLE_SECONDS = 60.0
CALLS_AT_ONCE = 4
WINDOW_BYTES = 64 << 10
"""The manager moves no blocks, only the marker."""


@dataclass(slots=True)
class _Kept:
    client: StoreClient
    users: int = 0
    used_at: float = field(default_factory=time.monotonic)


class StoreClients:
    """Hands out the clients. Safe to share among threads."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._kept: dict[StoreSettings, _Kept] = {}
        self._lock = threading.Lock()
        self._sweeper: threading.Timer | None = None

    @contextlib.contextmanager
    def of(self, settings: StoreSettings) -> Iterator[StoreClient]:
        """The store's client, for a call."""
        with self._lock:
            kept = self._kept.get(settings)
            if kept is None:
                client = StoreClient(settings, windows=CALLS_AT_ONCE, window_bytes=WINDOW_BYTES)
                kept = self._kept[settings] = _Kept(client)
            kept.users += 1
        try:
            yield kept.client
        finally:
            with self._lock:
                kept.users -= 1
                kept.used_at = time.monotonic()
                self._sweep_later()

    def close(self) -> None:
        """Ends all clients; calls under way fail."""
        with self._lock:
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None
            kept = list(self._kept.values())
            self._kept.clear()
        for each in kept:
            each.client.close()

    def _sweep_later(self) -> None:
        if self._sweeper is None and self._kept:
            self._sweeper = threading.Timer(self._idle_seconds, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        before = time.monotonic() - self._idle_seconds
        with self._lock:
            self._sweeper = None
            idle = [key for key, kept in self._kept.items() if not kept.users and kept.used_at <= before]
            over = [self._kept.pop(key) for key in idle]
            self._sweep_later()
        for kept in over:
            kept.client.close()


CLIENTS = StoreClients()
"""Of this process."""
