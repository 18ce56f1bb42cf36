"""Periodic work on reclaim runs."""

from apps.common.schedules import Schedule

KEEP_TASK = "apps.capacity.tasks.keep_runs"

SCHEDULES = [
    Schedule(
        name="Keep the record of reclaim runs",
        task=KEEP_TASK,
        every_seconds=60,
        description="Ends runs that nobody knows of any more, and forgets old ones.",
    ),
]
