"""Keeps the feed of events small."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.audit.services import events_forget


@shared_task(name="apps.audit.tasks.forget_events", time_limit=60, soft_time_limit=50)
def forget_events() -> int:
    return events_forget(now=timezone.now())
