"""Takes the results of periodic checks over: hysteresis, fullness, segments, history, publication."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from apps.common.services import registry_publish_on_commit, wake_on_commit
from apps.storages.choices import SegmentState
from apps.storages.models import Storage, StorageHealthSample, StorageSegment
from apps.storages.services.capacity import capacity_note, marks_note, room_note
from apps.storages.services.content import content_note
from apps.storages.services.departure import departure_note
from apps.storages.services.history import samples_note, turns_note
from apps.storages.services.opening import full_note, result_apply
from apps.storages.services.segments import segments_note
from apps.storages.usage import UsageByNumber, usage_of
from kvcm_platform.core.health import HealthLimits, Row
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.index.waking import Wake
from kvcm_platform.storage.backend import ProbeResult


@dataclass(frozen=True, slots=True)
class CheckedStorage:
    """The result of one check. `entry` is the storage as it was checked."""

    entry: StorageEntry
    result: ProbeResult
    at: datetime


@transaction.atomic
def checks_note(
    *, checks: Collection[CheckedStorage], usages: UsageByNumber | None, limits: HealthLimits
) -> set[str]:
    """Note the results of checks, each of another storage; the names of those that want a second look.

    A row of failures takes a storage out of placement and reads, a row of successes brings it back;
    a full one leaves placement only. All that the data plane must know goes out in one publication,
    and nothing while nothing changed. `usages` None = the index does not answer. The result for a
    storage that was changed or removed during its check counts for nothing.
    """
    names = [check.entry.name for check in checks]
    rows = Storage.objects.select_for_update().filter(name__in=names).order_by("pk")
    by_name = {row.name: row for row in rows.prefetch_related("segments")}
    changed, samples, doubtful, over = [], [], set(), []
    for check in checks:
        storage = by_name.get(check.entry.name)
        if storage is None or (storage.number, storage.version) != (check.entry.number, check.entry.version):
            continue
        noted = _note(storage, check, usages, limits)
        if noted.is_changed:
            changed.append(storage)
        if noted.is_over_mark:
            over.append(storage)
        samples.append(_sample(storage, check))
        if _is_in_doubt(storage):
            doubtful.add(storage.name)
    samples_note(samples)
    if changed:
        registry_publish_on_commit(lambda _: [_fresh(storage).entry() for storage in changed])
    for storage in over:
        wake_on_commit(Wake.STORAGE, storage=storage.name)
    return doubtful


@dataclass(frozen=True, slots=True)
class _Noted:
    """Whether the data plane must know of a result, and whether groups are to give blocks back there."""

    is_changed: bool
    is_over_mark: bool


def _note(
    storage: Storage, check: CheckedStorage, usages: UsageByNumber | None, limits: HealthLimits
) -> _Noted:
    """Write one result."""
    result, at, previous_at = check.result, check.at, storage.health_checked_at
    usage = None if usages is None else usage_of(storage, usages)
    was_available, was_full = storage.is_available, storage.is_full
    row = Row(was_available, storage.failures_in_row, storage.successes_in_row).after(result.is_ok, limits)
    storage.is_available, storage.failures_in_row = row.is_available, row.failures
    storage.successes_in_row = row.successes
    result_apply(storage, result, at=at)
    full_note(storage, result, capacity_reason=capacity_note(storage, usage))
    content_note(storage, result, at=at)
    is_changed = segments_note(storage, result, limits=limits, at=at, previous_at=previous_at)
    is_changed |= room_note(storage, usage, at=at, previous_at=previous_at)
    are_marks_new, is_over = marks_note(storage, usage, at=at, previous_at=previous_at)
    is_changed |= are_marks_new
    is_changed |= departure_note(storage, usage, limits=limits, at=at)
    is_changed |= turns_note(storage, was_available=was_available, was_full=was_full, at=at)
    storage.save()
    return _Noted(is_changed, is_over and not storage.is_leaving)


def _is_in_doubt(storage: Storage) -> bool:
    row = Row(storage.is_available, storage.failures_in_row, storage.successes_in_row)
    if row.is_in_doubt or storage.type != StorageType.TAIR_MEMPOOL:
        return row.is_in_doubt
    missed = StorageSegment.objects.filter(storage=storage, failures_in_row__gt=0)
    return missed.filter(state=SegmentState.AVAILABLE).exists()


def _sample(storage: Storage, check: CheckedStorage) -> StorageHealthSample:
    return StorageHealthSample(
        storage=storage,
        second=int(check.at.timestamp()),
        is_ok=check.result.is_ok,
        latency_ms=check.result.latency_ms,
        message="" if check.result.is_ok else check.result.message[:200],
    )


def _fresh(storage: Storage) -> Storage:
    """The row without what was prefetched before its segments changed."""
    storage._prefetched_objects_cache.clear()
    return storage
