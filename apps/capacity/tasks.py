"""Background work on reclaim."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.utils import timezone

from apps.capacity.schedules import KEEP_TASK
from apps.capacity.services.rounds import reclaim_work
from apps.capacity.services.upkeep import runs_keep
from apps.common.queue import RECLAIM_TASK


@shared_task(name=RECLAIM_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def run_reclaim() -> dict[str, Any]:
    return asdict(reclaim_work())


@shared_task(name=KEEP_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def keep_runs() -> dict[str, int]:
    return runs_keep(now=timezone.now())
