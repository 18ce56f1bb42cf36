"""What may go wrong with reclaim, for alerts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from apps.capacity.models import ReclaimRun
from apps.capacity.selectors import runs_failed, runs_waiting
from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity, ended
from apps.common.redis_client import figures_client, index_client
from kvcm_platform.core.reclaim.pressure import pressure_of
from kvcm_platform.index import reclaim_desk
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import group_usages


def reclaim_failing(_: Parameters) -> Iterator[Finding]:
    """Groups of which nothing, or not everything, can be reclaimed. Raises redis.RedisError."""
    now = time.time()
    for group, trouble in sorted(reclaim_desk.troubles(index_client()).items()):
        message = f"Blocks of group {group} cannot be reclaimed: {ended(trouble.reason)}"
        yield Finding(group, message, max(0.0, now - trouble.since), (group,))


def reclaim_behind(_: Parameters) -> Iterator[Finding]:
    """Groups that fill up faster than reclaim makes room. Raises redis.RedisError."""
    client = figures_client()
    groups = index_registry.read(client.main).groups.values()
    usages = group_usages(client, [group.number for group in groups])
    for group in groups:
        usage = usages[group.number]
        pressure = pressure_of(group, usage.used_bytes - usage.pending_bytes + usage.reserved_bytes)
        if pressure.is_behind:
            message = (
                f"Group {group.name} uses {pressure.ratio:.0%} of its quota, and reclaim, which begins at"
                f" {pressure.high} of {pressure.limit} bytes, does not keep up."
            )
            yield Finding(group.name, message, pressure.ratio, (group.name,))


def run_deletions_behind(parameters: Parameters) -> Iterator[Finding]:
    """Groups with runs whose blocks are out of service for long and still take room."""
    before = timezone.now() - timedelta(seconds=parameters["late_seconds"])
    by_group: dict[str, list[ReclaimRun]] = defaultdict(list)
    for run in runs_waiting(before=before):
        by_group[run.group_name].append(run)
    for group, runs in by_group.items():
        blocks = sum(run.waiting_blocks + run.failed_blocks for run in runs)
        size = sum(run.waiting_bytes + run.failed_bytes for run in runs)
        refused = sum(run.failed_blocks for run in runs)
        why = f" The storage refuses {refused} of them." if refused else ""
        what = f"Run {runs[0].run_id}" if len(runs) == 1 else f"{len(runs)} runs"
        message = (
            f"{what} of group {group} chose {blocks} blocks that are not deleted yet: {size} bytes.{why}"
        )
        yield Finding(group, message, float(size), (group,))


def reclaim_runs_failed(parameters: Parameters) -> Iterator[Finding]:
    """Groups with a run that failed a short while ago."""
    since = timezone.now() - timedelta(seconds=parameters["recent_seconds"])
    by_group: dict[str, list[ReclaimRun]] = defaultdict(list)
    for run in runs_failed(since=since):
        by_group[run.group_name].append(run)
    for group, runs in by_group.items():
        why = ended(runs[0].detail or "no block could be chosen")
        message = f"Reclaim run {runs[0].run_id} of group {group} failed: {why}"
        yield Finding(group, message, float(len(runs)), (group,))


CONDITIONS = [
    Condition(
        name="reclaim_failing",
        title="Reclaim failing",
        help="Blocks of a group cannot be reclaimed: it fills up, and then writes are refused.",
        subject_kind="instance_group",
        check=reclaim_failing,
        severity=Severity.CRITICAL,
        keep_firing_seconds=10,
        unit="seconds",
    ),
    Condition(
        name="reclaim_behind",
        title="Reclaim behind",
        help="A group stays above the middle between its high mark and its quota: soon it refuses writes.",
        subject_kind="instance_group",
        check=reclaim_behind,
        for_seconds=15,
        keep_firing_seconds=30,
        unit="ratio",
    ),
    Condition(
        name="reclaim_deletions_behind",
        title="Reclaimed blocks not deleted",
        help="Blocks that reclaim took out of service are not deleted: their room does not come free.",
        subject_kind="instance_group",
        check=run_deletions_behind,
        keep_firing_seconds=10,
        unit="bytes",
        parameters=(
            Parameter(
                name="late_seconds",
                default=60,
                minimum=1,
                maximum=86_400,
                unit="seconds",
                help="Since a run chose its last block; longer than delays before deletion.",
            ),
        ),
    ),
    Condition(
        name="reclaim_run_failed",
        title="Reclaim run failed",
        help="A run ended with an error.",
        subject_kind="instance_group",
        check=reclaim_runs_failed,
        unit="runs",
        parameters=(
            Parameter(
                name="recent_seconds",
                default=600,
                minimum=10,
                maximum=604_800,
                unit="seconds",
                help="For how long a run that failed is told.",
            ),
        ),
    ),
]
