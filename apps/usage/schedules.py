"""Periodic work on the history; control samples by itself."""

from apps.common.schedules import Schedule

SCHEDULES = [
    Schedule(
        name="Roll up the usage history",
        task="apps.usage.tasks.roll_up",
        every_seconds=60,
        description="Makes minutes and hours out of seconds, and drops what was kept long enough.",
    )
]
