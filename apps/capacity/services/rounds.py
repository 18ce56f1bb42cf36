"""Rounds of reclaim in the workers."""

from __future__ import annotations

import asyncio

import redis
import structlog
from django.conf import settings as django_settings
from django.db import DatabaseError, InterfaceError

from apps.capacity.services.ingest import reports_ingest
from apps.common.queue import RECLAIM_TASK, enqueue
from apps.common.redis_client import index_client
from kvcm_platform.duties.reclaim import ROUND_SECONDS, ReclaimSummary, reclaim_round
from kvcm_platform.duties.session import index_session
from kvcm_platform.index import keyspace
from kvcm_platform.index.duties import enqueue_once

log = structlog.get_logger(__name__)


def reclaim_work(*, seconds: float = ROUND_SECONDS) -> ReclaimSummary:
    """One round over all groups, then its reports go on record; neither waits for the database.

    Deletions that come due are seen by control. Raises redis.RedisError.
    """
    summary = asyncio.run(_round(seconds))
    if summary.is_unfinished and enqueue_once(index_client(), name=keyspace.RECLAIM_QUEUED):
        enqueue(RECLAIM_TASK)
    try:
        reports_ingest()
    except (DatabaseError, InterfaceError, redis.RedisError) as error:
        # They stay in the stream; control takes them over.
        log.warning("reports of reclaim runs wait", reason=str(error))
    return summary


async def _round(seconds: float) -> ReclaimSummary:
    async with index_session(django_settings.KVCM_REDIS_URL) as session:
        return await reclaim_round(session, seconds)
