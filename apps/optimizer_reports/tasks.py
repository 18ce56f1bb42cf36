"""Background work of the optimizer."""

from __future__ import annotations

import redis
import structlog
from celery import shared_task

from apps.common.redis_client import index_client
from apps.optimizer_reports.schedules import SAVINGS_TASK
from apps.optimizer_reports.services.cost_models import cost_model_seed
from apps.optimizer_reports.services.savings_fold import savings_fold
from apps.optimizer_reports.services.savings_publish import savings_publish

log = structlog.get_logger(__name__)


@shared_task(name=SAVINGS_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def count_savings() -> dict[str, int]:
    cost_model_seed()
    hours = savings_fold()
    try:
        savings_publish(client=index_client())
    except redis.RedisError as error:
        log.warning("the overview keeps its old savings", error=str(error))
    return {"hours": hours}
