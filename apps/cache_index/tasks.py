"""Background work on the block index, sent by control when something is due."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.conf import settings

from apps.cache_index.duties import duties_begin, duties_run
from apps.cache_index.index_session import index_session
from kvcm_platform.core.registry import instance_from_dict
from kvcm_platform.index import leaving
from kvcm_platform.index.connection import Connection


@shared_task(name="apps.cache_index.tasks.run_duties", time_limit=60, soft_time_limit=50, ignore_result=True)
def run_duties() -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with index_session(settings.KVCM_REDIS_URL) as session:
            if not await duties_begin(session):
                return {}
            return asdict(await duties_run(session))

    return asyncio.run(run())


@shared_task(
    name="apps.cache_index.tasks.forget_instance",
    time_limit=30,
    autoretry_for=(Exception,),
    retry_backoff=True,
    retry_backoff_max=60,
    max_retries=None,
    ignore_result=True,
)
def forget_instance(*, entry: dict[str, Any]) -> None:
    """Puts a removed instance on the list of those whose data goes; repeating is harmless."""

    async def run() -> None:
        connection = Connection(settings.KVCM_REDIS_URL)
        try:
            await connection.call(*leaving.leave_command(instance_from_dict(entry)))
        finally:
            await connection.close()

    asyncio.run(run())
