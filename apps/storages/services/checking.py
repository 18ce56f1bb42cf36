"""One round of checks over all storages, side by side, each with its own time limit.

A probe that hangs keeps a thread of its own and nothing else: who waits for it is let go in time, and
no further probe is sent after it (storage.probe). What comes back is noted as it comes, in one
transaction for all that came together, so that those that work never wait for those that hang.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Event

import structlog
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from apps.storages.services.checks import CheckedStorage, checks_note
from apps.storages.services.opening import owners_of
from apps.storages.usage import UsageByNumber
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.storage.probe import probe

log = structlog.get_logger(__name__)

AT_ONCE = 128
"""Threads that wait for probes. Storages beyond them come after, those that failed last of all."""
ROUND_SECONDS = 40.0
"""What was not checked by then is left to the next round."""
SECOND_LOOK_SECONDS = 1.0
_TOGETHER_SECONDS = 0.05
"""Results that come within this of each other are noted together."""


class CheckRound:
    """One round. `keep` is called at least once a second, so that a lease can be kept meanwhile."""

    def __init__(
        self, *, limits: HealthLimits, usages: UsageByNumber | None, keep: Callable[[], None] = lambda: None
    ) -> None:
        self._limits = limits
        self._usages = usages
        self._keep = keep
        self._came: SimpleQueue[CheckedStorage] = SimpleQueue()
        self._over = Event()
        self._seen_twice: set[str] = set()
        self._error: OperationalError | InterfaceError | None = None

    def run(self, entries: Collection[StorageEntry]) -> int:
        """Check them all; how many checks were noted. Raises what the database failed with, at the end."""
        if not entries:
            return 0
        # Asked for here: the threads of the checks have no connection to the database.
        owners = owners_of(entry.name for entry in entries)
        in_order = sorted(entries, key=lambda entry: not entry.is_available)
        threads = ThreadPoolExecutor(min(AT_ONCE, len(in_order)), thread_name_prefix="check")
        deadline = time.monotonic() + ROUND_SECONDS
        noted, under_way = 0, len(in_order)
        try:
            for entry in in_order:
                threads.submit(self._look, entry, owners[entry.name], 0.0)
            while under_way and time.monotonic() < deadline:
                self._keep()
                batch = self._take()
                under_way -= len(batch)
                for entry in self._note(batch):
                    threads.submit(self._look, entry, owners[entry.name], SECOND_LOOK_SECONDS)
                    under_way += 1
                noted += len(batch)
        finally:
            self._over.set()
            threads.shutdown(wait=False, cancel_futures=True)
        if self._error is not None:
            raise self._error
        return noted

    def _look(self, entry: StorageEntry, owner: str, after_seconds: float) -> None:
        if self._over.wait(after_seconds) if after_seconds else self._over.is_set():
            return
        result = probe(entry, owner=owner)
        self._came.put(CheckedStorage(entry, result, timezone.now()))

    def _take(self) -> list[CheckedStorage]:
        """What came, after at most a second."""
        batch = []
        try:
            batch.append(self._came.get(timeout=1.0))
            until = time.monotonic() + _TOGETHER_SECONDS
            while len(batch) < AT_ONCE:
                batch.append(self._came.get(timeout=max(0.0, until - time.monotonic())))
        except Empty:
            pass
        return batch

    def _note(self, batch: Sequence[CheckedStorage]) -> list[StorageEntry]:
        """Note results; the storages to look at once more, each once a round."""
        if not batch:
            return []
        try:
            doubtful = checks_note(checks=batch, usages=self._usages, limits=self._limits)
        except (OperationalError, InterfaceError) as error:
            log.warning("results of checks could not be noted", error=str(error))
            self._error = error
            return []
        except Exception:
            # One result that cannot be noted must not take those with it that came at the same time.
            if len(batch) > 1:
                return [entry for check in batch for entry in self._note([check])]
            log.exception("the result of a check could not be noted", storage=batch[0].entry.name)
            return []
        again = [c.entry for c in batch if c.entry.name in doubtful - self._seen_twice]
        self._seen_twice.update(entry.name for entry in again)
        return again
