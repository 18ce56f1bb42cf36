"""Periodic work on the log."""

from apps.common.schedules import Schedule

SCHEDULES = [
    Schedule(
        name="Forget old events",
        task="apps.audit.tasks.forget_events",
        every_seconds=300,
        description="Deletes events of more than 30 days ago, and the oldest where there are very many.",
    )
]
