"""Periodic work of the optimizer."""

from apps.common.schedules import Schedule

ESTIMATES_TASK = "apps.optimizer_reports.tasks.follow_traffic"
SAVINGS_TASK = "apps.optimizer_reports.tasks.count_savings"

SCHEDULES = [
    Schedule(
        name="Follow live traffic",
        task=ESTIMATES_TASK,
        every_seconds=5,
        description="Online estimate of the hit rates at other capacities, from sampled calls.",
    ),
    Schedule(
        name="Count savings",
        task=SAVINGS_TASK,
        every_seconds=60,
        description="Adds complete hours to the months of groups, and tells the overview.",
    ),
]
