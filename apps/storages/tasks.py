"""Periodic checks of the storages."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.conf import settings

from apps.storages.services import storages_check


@shared_task(name="apps.storages.tasks.check_storages", time_limit=60, soft_time_limit=50)
def check_storages() -> dict[str, Any]:
    return storages_check(limits=settings.KVCM_STORAGE_HEALTH)
