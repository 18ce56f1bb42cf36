"""Periodic work on the history."""

from __future__ import annotations

import time

from celery import shared_task

from apps.usage.services import history_prune, roll_up


@shared_task(name="apps.usage.tasks.roll_up", time_limit=120, soft_time_limit=100, ignore_result=True)
def roll_up_history() -> dict[str, int]:
    return {**roll_up(), "dropped": history_prune(now=int(time.time()))}
