"""The Celery application of the worker and of beat. Tasks live in apps/*/tasks.py."""

import os
import signal
from typing import Any

from celery import Celery
from celery.signals import beat_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvcm_platform.settings.dev")

app = Celery("kvcm")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@beat_init.connect
def end_beat_after_its_tick(sender: Any, **_: Any) -> None:
    """Let a signal end beat when the tick is over (they are a second apart at most), then save its schedule.

    Celery's own handlers save and raise within the signal: amid a query of the tick, whose connection is
    closed under it, or amid an import, and beat ends with a traceback.
    """

    def end(_signal: int, _frame: Any) -> None:
        sender._is_shutdown.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
