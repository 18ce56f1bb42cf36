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
    """Let a signal end the tick, and the schedule be saved after that.

    Celery's own handlers save it within the signal: amid a query of the tick, whose connection is closed
    under it, and beat ends with a traceback. Service.start saves it in any case once the tick is over.
    """

    def end(_signal: int, _frame: Any) -> None:
        if not sender._is_shutdown.is_set():
            # Also said, not only raised: exceptions within destructors get lost.
            sender._is_shutdown.set()
            raise SystemExit

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
