"""Periodic work of the optimizer."""

from apps.common.schedules import Schedule

SAVINGS_TASK = "apps.optimizer_reports.tasks.count_savings"

SCHEDULES = [
    Schedule(
        name="Count savings",
        task=SAVINGS_TASK,
        every_seconds=60,
        description="Adds complete hours to the months of groups, and tells the overview.",
    ),
]
