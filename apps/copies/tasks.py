"""Rounds of migrations between storages."""

from __future__ import annotations

from celery import shared_task

from apps.common.queue import COPIES_TASK
from apps.copies.services import copies_work


@shared_task(name=COPIES_TASK, time_limit=120, soft_time_limit=100, ignore_result=True)
def run_copies() -> dict[str, int]:
    return copies_work()
