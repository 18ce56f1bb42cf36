"""Periodic work of the optimizer; jobs are also sent for when somebody asks for one."""

from apps.common.schedules import Schedule

CAPTURES_TASK = "apps.optimizer_reports.tasks.write_captures"
ESTIMATES_TASK = "apps.optimizer_reports.tasks.follow_traffic"
RESUME_TASK = "apps.optimizer_reports.tasks.resume_optimizer"
KEEP_TASK = "apps.optimizer_reports.tasks.keep_optimizer"
FIRE_TASK = "apps.optimizer_reports.tasks.fire_schedule"
"""Sent by beat at the times of schedules of reports (services/beat_rows.py)."""
REPORTS_TASK = "apps.optimizer_reports.tasks.advance_reports"
REPORTS_KEEP_TASK = "apps.optimizer_reports.tasks.keep_reports"
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
    Schedule(
        name="Go on with optimizer reports",
        task=REPORTS_TASK,
        every_seconds=5,
        description="Makes scheduled reports and recommendations out of what is ready, and sends messages.",
    ),
    Schedule(
        name="Keep the record of optimizer reports",
        task=REPORTS_KEEP_TASK,
        every_seconds=300,
        description="Forgets old reports, ends old recommendations, and puts the times of reports right.",
    ),
]
