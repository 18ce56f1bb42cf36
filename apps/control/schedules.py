"""Periodic work that control sends too when it sees it due; the schedule is the safety net."""

from apps.common.queue import DUTIES_TASK
from apps.common.schedules import Schedule
from kvcm_platform.index.duties import SAFETY_SECONDS

SCHEDULES = [
    Schedule(
        name="Background duties of the index",
        task=DUTIES_TASK,
        every_seconds=round(SAFETY_SECONDS),
        description="Expired write sessions, due deletions, stale reservations, unfinished trims.",
    )
]
