"""Periodic work on storages."""

from apps.common.schedules import Schedule

SCHEDULES = [
    Schedule(
        name="Check storages",
        task="apps.storages.tasks.check_storages",
        every_seconds=5,
        description="Timed write-read-delete probe of every enabled storage.",
    ),
    Schedule(
        name="Go on with searches for orphans",
        task="apps.storages.tasks.resume_orphan_searches",
        every_seconds=60,
        description="Hands on searches whose worker died or that were waiting for another one.",
    ),
    Schedule(
        name="Remove empty folders",
        task="apps.storages.tasks.tidy_storages",
        every_seconds=3600,
        description="Folders of instances in which nothing was for longer than any write takes.",
    ),
]
