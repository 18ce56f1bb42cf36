"""Beat with the database scheduler that the platform runs, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from unittest.mock import patch

import django_celery_beat.schedulers as schedulers
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry
from django_celery_beat.tzcrontab import TzAwareCrontab

from kvcm_platform.celery import app

Sent = tuple[str, dict[str, Any]]


class FastBeat:
    """`sent` are the tasks that it handed out, as (name, kwargs), which `deliver` gets as well."""

    def __init__(self, deliver: Callable[[str, dict[str, Any]], Any]) -> None:
        self.sent: list[Sent] = []
        self._deliver = deliver
        self._scheduler = _Scheduler(self, app=app)

    def tick(self) -> float:
        """What beat's loop does once; returns how long that would sleep then."""
        return float(self._scheduler.tick())

    def take(self, name: str, kwargs: dict[str, Any]) -> None:
        # Beat has a task of Celery's own, as well.
        if name.startswith("apps."):
            self.sent.append((name, kwargs))
            self._deliver(name, kwargs)


class _Scheduler(DatabaseScheduler):
    producer = None
    """There is no broker."""

    def __init__(self, beat: FastBeat, **options: Any) -> None:
        self._beat = beat
        super().__init__(**options)
        # It would write once more when Python ends, when the test's database is gone.
        self._finalize.cancel()

    def apply_async(self, entry: ModelEntry, producer: Any = None, advance: bool = True, **_: Any) -> None:
        entry = self.reserve(entry) if advance else entry
        self._beat.take(entry.task, entry.kwargs)


@contextmanager
def beat_clock(now: Callable[[], datetime]) -> Iterator[None]:
    """Within it all of beat's clocks are `now`."""
    with (
        patch.object(ModelEntry, "_default_now", lambda self: now()),
        patch.object(TzAwareCrontab, "nowfunc", lambda self: now().astimezone(self.tz)),
        patch.object(schedulers, "aware_now", now),
        patch.object(schedulers, "now", now),
    ):
        yield
