"""One round of a worker: as many at a time as it has room for."""

from __future__ import annotations

import threading
from dataclasses import asdict
from functools import lru_cache

from django.conf import settings

from apps.optimizer_reports.services.carrying import jobs_work


@lru_cache(maxsize=1)
def _room() -> threading.BoundedSemaphore:
    """Of this process: its other threads are for other duties."""
    return threading.BoundedSemaphore(settings.KVCM_OPTIMIZER_JOBS)


def optimizer_work() -> dict[str, int]:
    """Carry out jobs, unless this process does as many as it may already: then one of them goes on later."""
    room = _room()
    if not room.acquire(blocking=False):
        return {"done": 0, "failed": 0}
    try:
        return asdict(jobs_work(memory_bytes=settings.KVCM_OPTIMIZER_MEMORY_BYTES))
    finally:
        room.release()
