"""Periodic work on migrations; control sends it too, and so does a request."""

from apps.common.queue import COPIES_TASK
from apps.common.schedules import Schedule

SCHEDULES = [
    Schedule(
        name="Migrations between storages",
        task=COPIES_TASK,
        every_seconds=5,
        description="Cold blocks leave a storage, used ones come back, and what was requested moves.",
    )
]
