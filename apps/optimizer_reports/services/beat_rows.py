"""Keeps the rows of django-celery-beat equal to the schedules of reports: these are what counts."""

from __future__ import annotations

import json

from django.db import transaction
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from apps.optimizer_reports.models.schedule import ReportSchedule
from apps.optimizer_reports.schedules import FIRE_TASK
from kvcm_platform.core.cron import parse_cron

_EXPIRES_SECONDS = 600
"""A message that no worker took by then is dropped: the round finds what was missed."""
_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def row_name(schedule_id: int) -> str:
    """By number: names may be given again."""
    return f"Optimizer report {schedule_id}"


def beat_row_set(schedule: ReportSchedule) -> None:
    """Make or change the row of one schedule, inside the caller's transaction."""
    cron = parse_cron(schedule.cron, schedule.timezone)
    when = dict(zip(_FIELDS, cron.fields, strict=True))
    crontab = CrontabSchedule.objects.filter(**when, timezone=cron.zone).first()
    if crontab is None:
        crontab = CrontabSchedule.objects.create(**when, timezone=cron.zone)
    wanted = {
        "task": FIRE_TASK,
        "crontab": crontab,
        "interval": None,
        "kwargs": json.dumps({"schedule_id": schedule.pk}),
        "enabled": not schedule.is_paused,
        "expire_seconds": _EXPIRES_SECONDS,
        "description": f"Makes the report {schedule.name}.",
    }
    row = PeriodicTask.objects.filter(name=row_name(schedule.pk)).first()
    if row is None:
        PeriodicTask.objects.create(name=row_name(schedule.pk), **wanted)
    elif any(getattr(row, name) != value for name, value in wanted.items()):
        for name, value in wanted.items():
            setattr(row, name, value)
        # Saved as a whole: beat looks at a stamp that `save` writes.
        row.save()


def beat_row_remove(schedule_id: int) -> None:
    PeriodicTask.objects.filter(name=row_name(schedule_id)).delete()


@transaction.atomic
def beat_rows_align() -> int:
    """Put right what differs, as after somebody edited or restored rows; returns how many were removed."""
    schedules = {row_name(schedule.pk): schedule for schedule in ReportSchedule.objects.all()}
    for schedule in schedules.values():
        beat_row_set(schedule)
    strays = PeriodicTask.objects.filter(task=FIRE_TASK).exclude(name__in=list(schedules))
    return int(strays.delete()[0])
