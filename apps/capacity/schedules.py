"""Periodic work on reclaim; control sends its rounds too, when somebody needs room."""

from apps.common.queue import RECLAIM_TASK
from apps.common.schedules import Schedule

KEEP_TASK = "apps.capacity.tasks.keep_runs"

SCHEDULES = [
    Schedule(
        name="Reclaim",
        task=RECLAIM_TASK,
        every_seconds=5,
        description="Groups above a high mark or a lowered limit give blocks back, and so do requests.",
    ),
    Schedule(
        name="Keep the record of reclaim runs",
        task=KEEP_TASK,
        every_seconds=60,
        description="Ends runs that nobody knows of any more, and forgets old ones.",
    ),
]
