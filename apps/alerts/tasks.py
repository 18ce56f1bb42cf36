"""Periodic work on alerts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.utils import timezone

from apps.alerts.services import alerts_evaluate, deliveries_send, history_forget
from apps.common.queue import enqueue

DELIVER_TASK = "apps.alerts.tasks.deliver"


@shared_task(name="apps.alerts.tasks.evaluate", time_limit=60, soft_time_limit=50)
def evaluate() -> dict[str, Any]:
    report = alerts_evaluate()
    if report.queued or report.resolved:
        enqueue(DELIVER_TASK)
    return asdict(report)


@shared_task(name=DELIVER_TASK, time_limit=120, soft_time_limit=100)
def deliver() -> dict[str, Any]:
    return asdict(deliveries_send())


@shared_task(name="apps.alerts.tasks.forget", time_limit=60, soft_time_limit=50)
def forget() -> dict[str, int]:
    return history_forget(now=timezone.now())
