"""Background work of the optimizer."""

from __future__ import annotations

import redis
import structlog
from celery import shared_task
from django.conf import settings

from apps.common.queue import OPTIMIZER_TASK
from apps.common.redis_client import index_client
from apps.optimizer_reports.schedules import (
    CAPTURES_TASK,
    ESTIMATES_TASK,
    FIRE_TASK,
    KEEP_TASK,
    REPORTS_KEEP_TASK,
    REPORTS_TASK,
    RESUME_TASK,
    SAVINGS_TASK,
)
from apps.optimizer_reports.services import optimizer_keep, optimizer_resume, optimizer_work
from apps.optimizer_reports.services.cost_models import cost_model_seed
from apps.optimizer_reports.services.estimates import estimates_follow, estimates_stop
from apps.optimizer_reports.services.live_captures import captures_follow
from apps.optimizer_reports.services.report_begin import report_fire
from apps.optimizer_reports.services.report_rounds import reports_keep, reports_round
from apps.optimizer_reports.services.savings_fold import savings_fold
from apps.optimizer_reports.services.savings_publish import savings_publish

log = structlog.get_logger(__name__)


@shared_task(name=OPTIMIZER_TASK, time_limit=25_000, soft_time_limit=24_000, ignore_result=True)
def run_optimizer() -> dict[str, int]:
    return optimizer_work()


@shared_task(name=RESUME_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def resume_optimizer() -> dict[str, int]:
    return optimizer_resume()


@shared_task(name=KEEP_TASK, time_limit=300, soft_time_limit=270, ignore_result=True)
def keep_optimizer() -> dict[str, int]:
    return optimizer_keep()


@shared_task(name=SAVINGS_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def count_savings() -> dict[str, int]:
    cost_model_seed()
    hours = savings_fold()
    try:
        savings_publish(client=index_client())
    except redis.RedisError as error:
        log.warning("the overview keeps its old savings", error=str(error))
    return {"hours": hours}


@shared_task(name=ESTIMATES_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def follow_traffic() -> dict[str, int]:
    client = index_client()
    if settings.KVCM_ESTIMATES:
        return estimates_follow(client=client)
    estimates_stop(client=client)
    return {}


@shared_task(name=CAPTURES_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def write_captures() -> dict[str, int]:
    return captures_follow(client=index_client())


@shared_task(name=FIRE_TASK, time_limit=60, soft_time_limit=50, ignore_result=True)
def fire_schedule(schedule_id: int) -> dict[str, int | None]:
    report = report_fire(schedule_id=schedule_id)
    return {"report": None if report is None else report.pk}


@shared_task(name=REPORTS_TASK, time_limit=300, soft_time_limit=270, ignore_result=True)
def advance_reports() -> dict[str, int]:
    return reports_round()


@shared_task(name=REPORTS_KEEP_TASK, time_limit=300, soft_time_limit=270, ignore_result=True)
def keep_reports() -> dict[str, int]:
    return reports_keep()
