"""What may go wrong with storages, for alerts."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db.models import QuerySet

from apps.common.actor import Actor
from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity, ended
from apps.common.redis_client import blocks_client, index_client
from apps.storages.choices import SegmentState
from apps.storages.models import Storage
from apps.storages.selectors import groups_naming, storage_list
from apps.storages.services.capacity import rooms_of
from apps.storages.usage import UsageByNumber, usage_by_storage, usage_of
from kvcm_platform.core.capacity import Watermarks, fullest
from kvcm_platform.core.departure import WINDOW_SECONDS
from kvcm_platform.index.late_deletions import late_deletions
from kvcm_platform.index.storage_checks import check_states

_WATCHER = Actor.system("alerts")


def storages_down(_: Parameters) -> Iterator[Finding]:
    """Enabled storages whose checks fail."""
    for storage, groups in _watched():
        if not storage.is_available:
            why = storage.health_message or "its check fails"
            message = f"Storage {storage.name} is unavailable: {ended(why)}"
            yield Finding(storage.name, message, float(storage.failures_in_row), groups)


def storages_full(_: Parameters) -> Iterator[Finding]:
    """Enabled storages that answer and take no new blocks: their device or their high watermark says so."""
    for storage, groups in _watched():
        if storage.is_available and storage.is_full:
            why = storage.full_reason or "it is full"
            message = f"Storage {storage.name} takes no new blocks: {ended(why)}"
            yield Finding(storage.name, message, groups=groups)


def storages_nearly_full(parameters: Parameters) -> Iterator[Finding]:
    """Storages that are near the point from which they take no new blocks.

    Raises redis.RedisError.
    """
    watched = list(_watched())
    usages = _usages([storage for storage, _ in watched if storage.capacity_bytes])
    for storage, groups in watched:
        rooms = rooms_of(storage, None if usages is None else usage_of(storage, usages))
        if not rooms or storage.is_full:
            continue
        high = Watermarks.of(storage.high_watermark_ratio, storage.low_watermark_ratio).high
        ratio = fullest(rooms).ratio
        if ratio >= parameters["used_ratio"] * high:
            message = (
                f"Storage {storage.name} is {ratio:.1%} used; from {high:.0%} on it takes no new blocks."
            )
            yield Finding(storage.name, message, ratio, groups)


def segments_down(_: Parameters) -> Iterator[Finding]:
    """Pools with nodes that do not answer and are not given up yet."""
    yield from _segments(SegmentState.UNAVAILABLE, "does not reach", "blocks there are misses meanwhile")


def segments_lost(_: Parameters) -> Iterator[Finding]:
    """Pools with memory that is gone for good and whose blocks are being cleared."""
    yield from _segments(SegmentState.LOST, "lost the memory of", "its blocks are being cleared")


def contents_lost(_: Parameters) -> Iterator[Finding]:
    """Storages that began anew, until every block on them was looked at. Raises redis.RedisError."""
    watched = list(_watched())
    states = check_states(index_client(), [storage.number for storage, _ in watched])
    for storage, groups in watched:
        state = states.get(storage.number)
        lost = 0 if state is None else state.lost
        if storage.needs_content_check or (state is not None and state.is_running and lost):
            message = f"Storage {storage.name} may have lost what it held: {lost} blocks are gone so far."
            yield Finding(storage.name, message, float(lost), groups)


def deletions_behind(parameters: Parameters) -> Iterator[Finding]:
    """Storages on which due deletions fail, so that no space comes free. Raises redis.RedisError."""
    late = late_deletions(index_client())
    if not late:
        return
    usages, now = usage_by_storage(blocks_client()), time.time()
    for storage, groups in _named(storage_list()):
        stuck = [late[number] for number in storage.entry().numbers if number in late]
        pending = usage_of(storage, usages).pending_bytes
        if not stuck or not pending:
            continue
        oldest = min(stuck, key=lambda each: each.since)
        seconds = now - oldest.since
        if seconds >= parameters["late_seconds"]:
            message = (
                f"Nothing was deleted on storage {storage.name} for {seconds:.0f} s, {pending} bytes wait:"
                f" {ended(oldest.why)}"
            )
            yield Finding(storage.name, message, seconds, groups)


def drains_stuck(parameters: Parameters) -> Iterator[Finding]:
    """Storages that drain or leave and do not empty. Raises redis.RedisError."""
    departing = list(_named(storage_list().filter(departing_since__isnull=False)))
    usages, now = _usages([storage for storage, _ in departing]), time.time()
    for storage, groups in departing:
        mark = storage.departing_mark
        if usages is None or mark is None:
            continue
        left, seconds = usage_of(storage, usages).used_bytes, now - mark.at
        if mark.bytes_per_second == 0:
            # The mark moved on while nothing left: the time before it counts as well.
            seconds += WINDOW_SECONDS
        if left and seconds >= parameters["still_seconds"] and not mark.rate(now, left):
            what = "is being removed" if storage.is_leaving else "drains"
            message = (
                f"Storage {storage.name} {what} and nothing left it for {seconds:.0f} s: {left} bytes stay."
            )
            yield Finding(storage.name, message, float(left), groups)


def _segments(state: SegmentState, what: str, then: str) -> Iterator[Finding]:
    for storage, groups in _watched():
        nodes = sorted(segment.node_id for segment in storage.segments.all() if segment.state == state)
        if nodes:
            message = f"Storage {storage.name} {what} {', '.join(nodes[:10])} ({len(nodes)} in all): {then}."
            yield Finding(storage.name, message, float(len(nodes)), groups)


def _watched() -> Iterator[tuple[Storage, tuple[str, ...]]]:
    """The storages of which something is expected, each with the groups that name it."""
    yield from _named(storage_list().filter(is_enabled=True, is_leaving=False))


def _named(rows: QuerySet[Storage]) -> Iterator[tuple[Storage, tuple[str, ...]]]:
    storages = list(rows)
    naming = groups_naming([storage.name for storage in storages], acting=_WATCHER)
    for storage in storages:
        yield storage, tuple(naming.get(storage.name, ()))


def _usages(storages: list[Storage]) -> UsageByNumber | None:
    """The usage in the index; None where no storage needs it. Raises redis.RedisError."""
    return usage_by_storage(blocks_client()) if storages else None


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
        help="A storage has no room or is over its high watermark: new blocks go to the next candidate.",
        subject_kind="storage",
        check=storages_full,
        keep_firing_seconds=30,
    ),
    Condition(
        name="storage_nearly_full",
        title="Storage nearly full",
        help="The blocks on a storage, or what is on its device, are near its high watermark.",
        subject_kind="storage",
        check=storages_nearly_full,
        for_seconds=30,
        keep_firing_seconds=60,
        unit="ratio",
        parameters=(
            Parameter(
                name="used_ratio",
                default=0.95,
                minimum=0.01,
                maximum=1.0,
                unit="ratio",
                help="Share of the high watermark (of all room without one) from which a storage counts.",
            ),
        ),
    ),
    Condition(
        name="pool_segment_down",
        title="Pool node away",
        help="A node of a memory pool does not answer: its blocks are misses until it comes back.",
        subject_kind="storage",
        check=segments_down,
        keep_firing_seconds=10,
        unit="nodes",
    ),
    Condition(
        name="pool_segment_lost",
        title="Pool segment lost",
        help="The memory of a pool's node is gone for good: its blocks are being cleared.",
        subject_kind="storage",
        check=segments_lost,
        unit="nodes",
    ),
    Condition(
        name="storage_content_lost",
        title="Storage content lost",
        help="What a storage held began anew, as of a store that was restarted: its blocks are looked at.",
        subject_kind="storage",
        check=contents_lost,
        unit="blocks",
    ),
    Condition(
        name="deletions_behind",
        title="Deletions behind",
        help="Deletions that are due on a storage fail, so that no space comes free.",
        subject_kind="storage",
        check=deletions_behind,
        keep_firing_seconds=10,
        unit="seconds",
        parameters=(
            Parameter(
                name="late_seconds",
                default=60,
                minimum=1,
                maximum=86_400,
                unit="seconds",
                help="For how long nothing could be deleted.",
            ),
        ),
    ),
    Condition(
        name="drain_stuck",
        title="Drain stuck",
        help="A storage that drains or is being removed does not empty.",
        subject_kind="storage",
        check=drains_stuck,
        for_seconds=60,
        keep_firing_seconds=30,
        unit="bytes",
        parameters=(
            Parameter(
                name="still_seconds",
                default=240,
                minimum=10,
                maximum=280,
                unit="seconds",
                help="For how long nothing left it; progress is measured over five minutes.",
            ),
        ),
    ),
]
