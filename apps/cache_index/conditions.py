"""What may go wrong with the index and its upkeep, for alerts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity, ended
from apps.common.redis_client import blocks_client, figures_client, index_client
from apps.common.selectors import pending_publications
from apps.live.verification import verification
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.damage import damages
from kvcm_platform.index.duties import oldest_due
from kvcm_platform.index.late_deletions import unreadable
from kvcm_platform.index.memory_policy import foreign_policies


def index_in_doubt(_: Parameters) -> Iterator[Finding]:
    """An index that may have lost changes and is being checked. Raises redis.RedisError."""
    sentence = verification(index_client())
    if sentence:
        yield Finding("index", sentence)


def policies_foreign(_: Parameters) -> Iterator[Finding]:
    """Servers of the index that may drop keys by themselves. Raises redis.RedisError."""
    client = figures_client()
    names = {group.number: group.name for group in index_registry.read(client.main).groups.values()}
    for one in foreign_policies(client):
        groups = tuple(sorted(names[number] for number in one.groups if number in names))
        yield Finding(", ".join(groups) or "index", one.sentence(names), groups=groups or None)


def keys_lost(parameters: Parameters) -> Iterator[Finding]:
    """Shards and groups that lost keys by themselves, lately or for good. Raises redis.RedisError."""
    now = time.time()
    for one in damages(index_client()):
        if one.mended_at is None or now - one.mended_at < parameters["told_seconds"]:
            yield Finding(one.subject, one.sentence, float(one.blocks), (one.group,))


def deletions_unreadable(_: Parameters) -> Iterator[Finding]:
    """Entries of lists of deletions that make no sense: they are kept. Raises redis.RedisError."""
    found = unreadable(index_client())
    if found:
        message = (
            f"{len(found)} pending deletions cannot be read and are kept, the last of them"
            f" {found[-1].name}: {ended(found[-1].why)}"
        )
        yield Finding("deletions", message, float(len(found)))


def duties_behind(parameters: Parameters) -> Iterator[Finding]:
    """Deletions that nobody carries out. Raises redis.RedisError."""
    client = blocks_client()
    due = oldest_due(client, index_registry.read(client.main))
    late = 0.0 if due is None else time.time() - due
    if late >= parameters["late_seconds"]:
        message = f"The oldest deletion is due for {late:.0f} s: the workers do not keep up, or none runs."
        yield Finding("duties", message, late)


def control_behind(parameters: Parameters) -> Iterator[Finding]:
    """Changes that are committed and not published: engines work by older settings."""
    before = timezone.now() - timedelta(seconds=parameters["late_seconds"])
    waiting = len(pending_publications(before=before))
    if waiting:
        message = f"{waiting} changes of storages, groups or instances did not reach the index yet."
        yield Finding("control", message, float(waiting))


def _late(default: int, help_text: str) -> tuple[Parameter, ...]:
    return (Parameter("late_seconds", default, 5, 86_400, "seconds", help_text),)


CONDITIONS = [
    Condition(
        name="index_in_doubt",
        title="Index in doubt",
        help="The index fell back to an earlier state and is being checked: until then blocks are misses.",
        subject_kind="platform",
        check=index_in_doubt,
    ),
    Condition(
        name="memory_policy_foreign",
        title="Redis may drop keys",
        help="A server of the index has a maxmemory-policy other than noeviction: it may drop keys.",
        subject_kind="platform",
        check=policies_foreign,
        keep_firing_seconds=10,
    ),
    Condition(
        name="index_keys_lost",
        title="Keys of the index lost",
        help="An instance or a group lost single keys in Redis: they are made anew, or blocks are misses.",
        subject_kind="platform",
        check=keys_lost,
        unit="blocks",
        parameters=(
            Parameter("told_seconds", 600, 10, 86_400, "seconds", "For how long it is told of after that."),
        ),
    ),
    Condition(
        name="deletions_unreadable",
        title="Deletions unreadable",
        help="Entries of a list of pending deletions cannot be read: their space does not come free.",
        subject_kind="platform",
        check=deletions_unreadable,
        unit="deletions",
    ),
    Condition(
        name="duties_behind",
        title="Duties behind",
        help="Deletions are due for long and not carried out: space and quota do not come free.",
        subject_kind="platform",
        check=duties_behind,
        for_seconds=30,
        keep_firing_seconds=30,
        unit="seconds",
        parameters=_late(60, "For how long the oldest deletion is due."),
    ),
    Condition(
        name="control_behind",
        title="Control behind",
        help="Changes in the database do not reach the index.",
        subject_kind="platform",
        check=control_behind,
        severity=Severity.CRITICAL,
        keep_firing_seconds=10,
        unit="changes",
        parameters=_late(30, "Age from which a change that is not published counts."),
    ),
]
