"""What may go wrong with the index and its upkeep, for alerts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity
from apps.common.redis_client import blocks_client, index_client
from apps.common.selectors import pending_publications
from apps.live.verification import verification
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.duties import oldest_due


def index_in_doubt(_: Parameters) -> Iterator[Finding]:
    """An index that may have lost changes and is being checked. Raises redis.RedisError."""
    sentence = verification(index_client())
    if sentence:
        yield Finding("index", sentence)


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
