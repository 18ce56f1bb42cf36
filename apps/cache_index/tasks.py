"""Background work on the block index, sent by control when something is due."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import structlog
from celery import shared_task
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from apps.cache_index.services import damages_record
from apps.common.queue import DUTIES_TASK
from apps.common.selectors import pending_publications, registry_version
from kvcm_platform.duties.lease import duties_lease
from kvcm_platform.duties.run import DutiesReport, duties_run
from kvcm_platform.duties.session import index_session
from kvcm_platform.index.duties import AHEAD_MS

log = structlog.get_logger(__name__)


@shared_task(name=DUTIES_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def run_duties() -> dict[str, Any]:
    version = _registry_version()

    async def run() -> DutiesReport | None:
        async with index_session(settings.KVCM_REDIS_URL) as session, duties_lease(session) as owner:
            if not owner:
                return None
            quarantine_ms = settings.KVCM_REUSE_QUARANTINE_S * 1000
            return await duties_run(
                session,
                owner=owner,
                quarantine_ms=quarantine_ms,
                registry_version=version,
                reasons_kept_ms=settings.KVCM_EVICTIONS_KEPT_S * 1000,
                ahead_ms=AHEAD_MS,
            )

    report = asyncio.run(run())
    if report is None:
        return {}
    try:
        damages_record(report.damage)
    except (DatabaseError, InterfaceError) as error:
        log.warning("lost keys are not among the events", reason=str(error))
    return asdict(report)


def _registry_version() -> int | None:
    """What Redis has to have; None while it is known to lack something, or nothing is known."""
    try:
        if pending_publications(before=timezone.now()):
            return None
        return registry_version() or None
    except (DatabaseError, InterfaceError) as error:
        log.warning("the duties go on without the database", reason=str(error))
        return None
