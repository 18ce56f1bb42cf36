"""Periodic work of the optimizer; jobs are also sent for when somebody asks for one."""

from apps.common.schedules import Schedule

CAPTURES_TASK = "apps.optimizer_reports.tasks.write_captures"
ESTIMATES_TASK = "apps.optimizer_reports.tasks.follow_traffic"
RESUME_TASK = "apps.optimizer_reports.tasks.resume_optimizer"
KEEP_TASK = "apps.optimizer_reports.tasks.keep_optimizer"
SAVINGS_TASK = "apps.optimizer_reports.tasks.count_savings"

SCHEDULES = [
    Schedule(
        name="Follow live traffic",
        task=ESTIMATES_TASK,
        every_seconds=5,
        description="Online estimate of the hit rates at other capacities, from sampled calls.",
    ),
    Schedule(
        name="Write captures",
        task=CAPTURES_TASK,
        every_seconds=3,
        description="Brings captured calls from Redis into the files of their traces.",
    ),
    Schedule(
        name="Go on with the optimizer",
        task=RESUME_TASK,
        every_seconds=5,
        description="Hands on traces to read and jobs of runs whose worker died or whose message was lost.",
    ),
    Schedule(
        name="Keep the record of the optimizer",
        task=KEEP_TASK,
        every_seconds=600,
        description="Forgets old runs, and removes files that belong to no trace.",
    ),
    Schedule(
        name="Count savings",
        task=SAVINGS_TASK,
        every_seconds=60,
        description="Adds complete hours to the months of groups, and tells the overview.",
    ),
]
