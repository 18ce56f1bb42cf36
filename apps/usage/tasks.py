"""Periodic work on the history."""

from __future__ import annotations

import time

import redis
import structlog
from celery import shared_task

from apps.common.redis_client import index_client
from apps.usage.services import day_publish, growth_refresh, history_prune, roll_up

log = structlog.get_logger(__name__)


@shared_task(name="apps.usage.tasks.roll_up", time_limit=120, soft_time_limit=100, ignore_result=True)
def roll_up_history() -> dict[str, int]:
    done = {**roll_up(), "trends": growth_refresh(), "dropped": history_prune(now=int(time.time()))}
    try:
        day_publish(client=index_client())
    except redis.RedisError as error:
        log.warning("the overview keeps its old figures of the day", error=str(error))
    return done
