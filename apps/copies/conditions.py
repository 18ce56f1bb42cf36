"""What may go wrong with migrations between storages, for alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta

from django.utils import timezone

from apps.common.conditions import Condition, Finding, Parameter, Parameters, ended
from apps.copies.models import CopyRun
from apps.copies.selectors import policy_troubles, requests_failed, requests_waiting
from kvcm_platform.core.migration import Direction

_DOES_WHAT = {
    Direction.DEMOTION.value: "Cold blocks of group {group} cannot leave their storage",
    Direction.PROMOTION.value: "Used blocks of group {group} cannot come back to their storage",
}


def migrations_stuck(_: Parameters) -> Iterator[Finding]:
    """Groups whose policy, or a migration that was requested, cannot go on."""
    sentences = [
        (row.group_name, f"{_DOES_WHAT[row.direction].format(group=row.group_name)}: {ended(row.reason)}")
        for row in policy_troubles()
    ]
    sentences += [(run.group_name, f"{_named(run)} waits: {ended(_why(run))}") for run in requests_waiting()]
    yield from _by_group(sentences)


def migrations_failed(parameters: Parameters) -> Iterator[Finding]:
    """Groups with a requested migration that failed a short while ago and was not repeated with success."""
    since = timezone.now() - timedelta(seconds=parameters["recent_seconds"])
    runs = requests_failed(since=since)
    yield from _by_group([(run.group_name, f"{_named(run)} failed: {ended(_why(run))}") for run in runs])


def _by_group(sentences: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """One finding a group, with the first sentence about it and the number of all."""
    by_group: dict[str, list[str]] = defaultdict(list)
    for group, sentence in sentences:
        by_group[group].append(sentence)
    for group, all_of in by_group.items():
        more = f" {len(all_of) - 1} more of this group." if len(all_of) > 1 else ""
        yield Finding(group, all_of[0] + more, float(len(all_of)), (group,))


def _named(run: CopyRun) -> str:
    return f"Migration {run.pk} of group {run.group_name} from {run.source} to {run.target}"


def _why(run: CopyRun) -> str:
    return run.detail or "; ".join(run.reasons) or "no block could be copied"


CONDITIONS = [
    Condition(
        name="migration_stuck",
        title="Migration stuck",
        help="The migration policy of a group, or a migration that was requested, cannot go on.",
        subject_kind="instance_group",
        check=migrations_stuck,
        for_seconds=120,
        keep_firing_seconds=60,
        unit="migrations",
    ),
    Condition(
        name="migration_failed",
        title="Migration failed",
        help="A migration that was requested failed, and was not repeated with success.",
        subject_kind="instance_group",
        check=migrations_failed,
        unit="migrations",
        parameters=(
            Parameter(
                name="recent_seconds",
                default=3600,
                minimum=60,
                maximum=604_800,
                unit="seconds",
                help="For how long a migration that failed is told.",
            ),
        ),
    ),
]
