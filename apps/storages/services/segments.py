"""The memory segments of a pool, as its checks see them: found, missed, back, lost, settled.

Every segment has a number of its own in block records, so the blocks of a lost one are misses at
once; its number stays published as lost until the index holds nothing of it (departure.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db.models import Count, Max

from apps.common.services import number_next
from apps.storages.choices import HealthEvent, SegmentState
from apps.storages.models import MAX_NUMBER, Storage, StorageHealthChange, StorageSegment
from apps.storages.services.history import turn_note
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.health import LATELY_SECONDS, HealthLimits, Row, is_gone_for_good, wait_after_lives
from kvcm_platform.core.sizes import sized
from kvcm_platform.storage.backend import ProbeResult, SegmentSeen

log = structlog.get_logger(__name__)

CHECKS_STOPPED = timedelta(seconds=60)
"""Nobody looked for longer than this: that a node was away meanwhile is not known."""


@dataclass(frozen=True, slots=True)
class _Check:
    """One check of a storage: what it said and when, and when the one before it was."""

    result: ProbeResult
    at: datetime
    previous_at: datetime | None
    limits: HealthLimits

    @property
    def can_judge_absence(self) -> bool:
        """Whether a missing node is missing, and not the whole pool, or whoever should have looked."""
        has_gap = self.previous_at is None or self.at - self.previous_at > CHECKS_STOPPED
        return self.result.is_ok and not has_gap


def segments_note(
    storage: Storage, result: ProbeResult, *, limits: HealthLimits, at: datetime, previous_at: datetime | None
) -> bool:
    """Take over what a check saw of a storage's segments; whether the data plane must know.

    `previous_at` is the time of the check before. Whose memory has to wait for its number is said in
    the storage's health message. Inside the caller's transaction, with the storage's
    row locked.
    """
    check = _Check(result, at, previous_at, limits)
    living = list(storage.segments.exclude(state=SegmentState.LOST))
    if not result.segments and not living:
        return False
    seen = {(segment.node_id, segment.segment_id): segment for segment in result.segments}
    nodes = {segment.node_id for segment in result.segments}
    is_changed = False
    for segment in living:
        found = seen.pop((segment.node_id, segment.segment_id), None)
        if found is not None:
            is_changed |= _answered(storage, segment, found, at)
        elif segment.node_id in nodes:
            _lose(storage, segment, "its node came back with other memory", at)
            is_changed = True
        else:
            is_changed |= _missed(storage, segment, check)
    return _find(storage, sorted(seen.values(), key=lambda found: found.node_id), at) or is_changed


def _answered(storage: Storage, segment: StorageSegment, found: SegmentSeen, at: datetime) -> bool:
    is_back = segment.state == SegmentState.UNAVAILABLE
    is_moved = (segment.address, segment.size_bytes) != (found.address, found.size_bytes)
    segment.address, segment.size_bytes = found.address[:256], found.size_bytes
    segment.used_bytes = found.used_bytes
    segment.state = SegmentState.AVAILABLE
    segment.failures_in_row, segment.missed_since, segment.seen_at = 0, None, at
    segment.save()
    if is_back:
        turn_note(storage, HealthEvent.SEGMENT_RETURNED, at=at, node_id=segment.node_id)
    return is_back or is_moved


def _missed(storage: Storage, segment: StorageSegment, check: _Check) -> bool:
    """It did not show itself. Only the time counts in which others of its pool did."""
    was_available = segment.state == SegmentState.AVAILABLE
    if segment.missed_since is None or not check.can_judge_absence:
        segment.missed_since = check.at
    row = Row(was_available, segment.failures_in_row).after(False, check.limits)
    segment.failures_in_row = row.failures
    if not row.is_available:
        segment.state = SegmentState.UNAVAILABLE
    if is_gone_for_good((check.at - segment.missed_since).total_seconds(), row, check.limits):
        _lose(storage, segment, f"its node stayed away for {check.limits.pool_lost_seconds:g} s", check.at)
        return True
    segment.save()
    if row.is_available == was_available:
        return False
    message = f"node {segment.node_id} ({segment.address}) does not answer"
    turn_note(storage, HealthEvent.SEGMENT_UNAVAILABLE, at=check.at, message=message, node_id=segment.node_id)
    return True


def _lose(storage: Storage, segment: StorageSegment, why: str, at: datetime) -> None:
    segment.state, segment.lost_at, segment.used_bytes = SegmentState.LOST, at, 0
    segment.save()
    turn_note(storage, HealthEvent.SEGMENT_LOST, at=at, message=why, node_id=segment.node_id)


def _find(storage: Storage, segments: Sequence[SegmentSeen], at: datetime) -> bool:
    """Give new memory its number, but for nodes that came with new memory too often lately."""
    if not segments:
        return False
    is_any = False
    lives = _lives_lately(storage, {segment.node_id for segment in segments}, at)
    for segment in segments:
        past = lives.setdefault(segment.node_id, _Lives(0, at))
        if at < past.next_at:
            _say(storage, past.why_it_waits(segment.node_id))
            continue
        try:
            number = number_next(kind="storage", at_most=MAX_NUMBER)
        except DomainError as error:
            if error.code is not Code.CAPACITY:
                raise
            log.error(
                "a segment cannot be used: no number is left", storage=storage.name, node=segment.node_id
            )
            return is_any
        _begin(storage, segment, number, at)
        lives[segment.node_id] = _Lives(past.count + 1, at)
        is_any = True
    return is_any


@dataclass(frozen=True, slots=True)
class _Lives:
    """How many lives of a node's memory were taken up lately, and when the last one was."""

    count: int
    last_at: datetime

    @property
    def next_at(self) -> datetime:
        return self.last_at + timedelta(seconds=wait_after_lives(self.count))

    def why_it_waits(self, node_id: str) -> str:
        """The same words until it is over."""
        return (
            f"node {node_id} came with new memory {self.count} times within {LATELY_SECONDS / 60:.0f} min:"
            f" what it has now is used from {self.next_at:%H:%M:%S} UTC on"
        )


def _lives_lately(storage: Storage, nodes: Collection[str], at: datetime) -> dict[str, _Lives]:
    """By node. Out of the history: the rows of segments go once the index holds nothing of them."""
    found = StorageHealthChange.objects.filter(
        storage=storage,
        event=HealthEvent.SEGMENT_FOUND,
        node_id__in=list(nodes),
        at__gt=at - timedelta(seconds=LATELY_SECONDS),
        at__lte=at,
    )
    rows = found.order_by().values_list("node_id").annotate(Count("id"), Max("at"))
    return {node_id: _Lives(count, last_at) for node_id, count, last_at in rows}


def _say(storage: Storage, message: str) -> None:
    """Add to what the check itself said."""
    storage.health_message = "; ".join(filter(None, (storage.health_message, message)))[:500]


def _begin(storage: Storage, segment: SegmentSeen, number: int, at: datetime) -> None:
    StorageSegment.objects.create(
        storage=storage,
        number=number,
        node_id=segment.node_id,
        segment_id=segment.segment_id,
        address=segment.address[:256],
        size_bytes=segment.size_bytes,
        used_bytes=segment.used_bytes,
        found_at=at,
        seen_at=at,
    )
    message = f"{sized(segment.size_bytes)} at {segment.address}"
    turn_note(storage, HealthEvent.SEGMENT_FOUND, at=at, message=message, node_id=segment.node_id)
