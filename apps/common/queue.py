"""Enqueues background work by registered task name, so that no app imports another one's tasks."""

from __future__ import annotations

from typing import Any

import structlog
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)

DUTIES_TASK = "apps.cache_index.tasks.run_duties"
"""Sent by whoever knows that the index has something due."""
COPIES_TASK = "apps.copies.tasks.run_copies"
"""Sent by whoever knows that blocks have to move between storages."""
RECLAIM_TASK = "apps.capacity.tasks.run_reclaim"
"""Sent by whoever knows that a group needs room."""
OPTIMIZER_TASK = "apps.optimizer_reports.tasks.run_optimizer"
"""Sent by whoever left something for the optimizer to do: a trace to read, a run, a report that is due."""


def enqueue(task: str, **kwargs: Any) -> bool:
    """Hand `task` to the workers now; False when the broker cannot be reached.

    Whatever is enqueued here is also done by a periodic task, so a lost message costs time only.
    """
    # Imported on use: the Celery application reads the settings that import this module's apps.
    from kvcm_platform.celery import app

    try:
        app.send_task(task, kwargs=kwargs, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("task was not enqueued", task=task, error=str(error))
        return False
    return True
