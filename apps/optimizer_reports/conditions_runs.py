"""What may go wrong with runs of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from apps.common.conditions import Condition, Finding, Parameter, Parameters, ended
from apps.optimizer_reports.selectors.runs import job_waiting_longest, runs_failed


def runs_that_failed(parameters: Parameters) -> Iterator[Finding]:
    """Runs that failed within the last `recent_seconds`."""
    since = timezone.now() - timedelta(seconds=parameters["recent_seconds"])
    for run in runs_failed(since=since):
        title = run.name or f"of trace {run.trace_name}"
        yield Finding(
            subject=f"optimizer run {run.pk}",
            message=f"Optimizer run {run.pk}, {title}, failed: {ended(run.reason)}",
            groups=None if run.is_of_all_groups else tuple(group.name for group in run.groups.all()),
        )


def jobs_not_begun(parameters: Parameters) -> Iterator[Finding]:
    """Whether a job waits for `late_seconds` while none is carried out."""
    waited = job_waiting_longest(now=timezone.now())
    if waited is not None and waited.total_seconds() > parameters["late_seconds"]:
        yield Finding(
            subject="optimizer",
            message="No worker begins the jobs of the optimizer: see whether workers run, and their logs.",
            value=waited.total_seconds(),
        )


RUN_CONDITIONS = [
    Condition(
        name="optimizer_run_failed",
        title="Optimizer run failed",
        help="A job of a run failed; the run's page says why, and can repeat it.",
        subject_kind="platform",
        check=runs_that_failed,
        parameters=(
            Parameter(
                name="recent_seconds",
                default=3600,
                minimum=10,
                maximum=604_800,
                unit="seconds",
                help="For how long a run that failed is told.",
            ),
        ),
    ),
    Condition(
        name="optimizer_stands_still",
        title="Optimizer stands still",
        help="Jobs wait, and no worker carries any out.",
        subject_kind="platform",
        check=jobs_not_begun,
        keep_firing_seconds=30,
        unit="seconds",
        parameters=(
            Parameter(
                name="late_seconds",
                default=120,
                minimum=10,
                maximum=86_400,
                unit="seconds",
                help="How long the oldest job may wait while none is carried out.",
            ),
        ),
    ),
]
