"""What may go wrong with storages, for alerts."""

from __future__ import annotations

from collections.abc import Iterator

from apps.common.actor import Actor
from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity
from apps.common.redis_client import blocks_client
from apps.storages.models import Storage
from apps.storages.selectors import groups_naming, storage_list
from apps.storages.usage import usage_by_storage

_WATCHER = Actor.system("alerts")


def storages_down(_: Parameters) -> Iterator[Finding]:
    """Enabled storages whose checks fail."""
    for storage, groups in _watched():
        if not storage.is_available:
            why = storage.health_message or "its check fails"
            yield Finding(
                storage.name,
                f"Storage {storage.name} is unavailable: {why.rstrip('.')}.",
                float(storage.failures_in_row),
                groups,
            )


def storages_full(_: Parameters) -> Iterator[Finding]:
    """Enabled storages that answer and take no new blocks."""
    for storage, groups in _watched():
        if storage.is_available and storage.is_full:
            why = storage.full_reason or storage.health_message or "it is full"
            message = f"Storage {storage.name} takes no new blocks: {why.rstrip('.')}."
            yield Finding(storage.name, message, groups=groups)


def storages_nearly_full(parameters: Parameters) -> Iterator[Finding]:
    """Storages with a capacity that are over their own high watermark, or the rule's where they have none.

    Raises redis.RedisError.
    """
    limited = [(storage, groups) for storage, groups in _watched() if storage.capacity_bytes]
    usages = usage_by_storage(blocks_client()) if limited else {}
    for storage, groups in limited:
        usage = usages.get(storage.number)
        ratio = (usage.used_bytes if usage else 0) / storage.capacity_bytes
        limit = storage.high_watermark_ratio or parameters["used_ratio"]
        if ratio > limit:
            message = f"Storage {storage.name} is {ratio:.0%} used; its high watermark is {limit:.0%}."
            yield Finding(storage.name, message, ratio, groups)


def _watched() -> Iterator[tuple[Storage, tuple[str, ...]]]:
    """The enabled storages, each with the groups that name it."""
    storages = [storage for storage in storage_list() if storage.is_enabled]
    naming = groups_naming([storage.name for storage in storages], acting=_WATCHER)
    for storage in storages:
        yield storage, tuple(naming.get(storage.name, ()))


CONDITIONS = [
    Condition(
        name="storage_down",
        title="Storage down",
        help="The checks of an enabled storage fail: nothing is written to it or read from it.",
        subject_kind="storage",
        check=storages_down,
        severity=Severity.CRITICAL,
        keep_firing_seconds=10,
    ),
    Condition(
        name="storage_full",
        title="Storage full",
        help="A storage answers and has no room: new blocks go to the next candidate.",
        subject_kind="storage",
        check=storages_full,
        keep_firing_seconds=30,
    ),
    Condition(
        name="storage_nearly_full",
        title="Storage nearly full",
        help="A storage with a capacity is over its high watermark.",
        subject_kind="storage",
        check=storages_nearly_full,
        for_seconds=30,
        keep_firing_seconds=60,
        unit="ratio",
        parameters=(
            Parameter(
                name="used_ratio",
                default=0.9,
                minimum=0.01,
                maximum=1.0,
                unit="ratio",
                help="Used share from which a storage without a high watermark of its own counts.",
            ),
        ),
    ),
]
