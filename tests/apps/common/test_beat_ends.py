"""How beat ends: by a signal that comes amid a tick."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from celery.apps.beat import Beat
from celery.beat import Scheduler, Service
from celery.signals import beat_init

from kvcm_platform.celery import app, end_beat_after_its_tick

said: list[str] = []


class Watched(Scheduler):
    """Stopped in the middle of what may be a query."""

    def setup_schedule(self) -> None:
        said.clear()

    def tick(self) -> float:  # type: ignore[override]
        said.append("tick begins")
        os.kill(os.getpid(), stopped_by)
        said.append("tick goes on")
        return 0.001

    def close(self) -> None:
        # A second signal changes nothing: the schedule is saved as a whole.
        os.kill(os.getpid(), stopped_by)
        said.append("saved")


stopped_by = signal.SIGTERM


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Others begin to send signs of life, which would go on when the test is over.
    ours = [row for row in beat_init.receivers if row[0][0] == id(end_beat_after_its_tick)]
    monkeypatch.setattr(beat_init, "receivers", ours)
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("handlers")
def test_beat_ends_and_saves_its_schedule_after_the_tick_that_a_signal_meets() -> None:
    service = Service(app, scheduler_cls=Watched)
    Beat(app=app, quiet=True, loglevel="WARNING").install_sync_handler(service)
    service.start()
    assert said == ["tick begins", "tick goes on", "saved"]
