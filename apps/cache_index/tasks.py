"""Background work on the block index, sent by control when something is due."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.conf import settings

from apps.common.queue import DUTIES_TASK
from kvcm_platform.duties.lease import duties_lease
from kvcm_platform.duties.run import duties_run
from kvcm_platform.duties.session import index_session


@shared_task(name=DUTIES_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def run_duties() -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with index_session(settings.KVCM_REDIS_URL) as session, duties_lease(session) as owner:
            if not owner:
                return {}
            quarantine_ms = settings.KVCM_REUSE_QUARANTINE_S * 1000
            return asdict(await duties_run(session, owner=owner, quarantine_ms=quarantine_ms))

    return asyncio.run(run())
