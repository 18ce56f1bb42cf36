"""Periodic work on storages."""

from apps.common.schedules import Schedule

SCHEDULES = [
    Schedule(
        name="Check storages",
        task="apps.storages.tasks.check_storages",
        every_seconds=5,
        description="Timed write-read-delete probe of every enabled storage.",
    )
]
