"""Periodic checks of the storages."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.conf import settings

from apps.storages.services import (
    orphan_run_carry_out,
    orphan_runs_resume,
    storages_check,
    storages_tidy,
)
from apps.storages.services.orphans import SEARCH_TASK


@shared_task(name="apps.storages.tasks.check_storages", time_limit=60, soft_time_limit=50)
def check_storages() -> dict[str, Any]:
    return storages_check(limits=settings.KVCM_STORAGE_HEALTH)


@shared_task(name=SEARCH_TASK, time_limit=7500, soft_time_limit=7400)
def search_orphans(run_id: int) -> str:
    run = orphan_run_carry_out(run_id=run_id, redis_url=settings.KVCM_REDIS_URL)
    return "" if run is None else str(run.state)


@shared_task(name="apps.storages.tasks.resume_orphan_searches", time_limit=60, soft_time_limit=50)
def resume_orphan_searches() -> int:
    return orphan_runs_resume()


@shared_task(name="apps.storages.tasks.tidy_storages")
def tidy_storages() -> dict[str, int]:
    return storages_tidy()
