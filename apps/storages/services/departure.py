"""How drains and removals get on, and their end: the row goes when the index holds nothing of it.

Every step is a state of the row, and every step may be repeated, so it does not matter where a
process dies: control comes back to it (`departures_settle`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

import redis
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.audit.services import audit_record, event_record
from apps.common.actor import Actor
from apps.common.selectors import pending_publications
from apps.common.services import Removed, registry_publish_on_commit, removals_note
from apps.storages.choices import HealthEvent, SegmentState
from apps.storages.models import Storage, StorageSegment
from apps.storages.selectors import storage_get
from apps.storages.services.history import incidents_end_all, turn_note
from apps.storages.usage import UsageByNumber, holds_any, usage_by_storage, usage_of
from kvcm_platform.core.departure import Mark
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.writes import INSERT_SECONDS
from kvcm_platform.index.stats import StorageUsage

KNOWN_AFTER = timedelta(seconds=INSERT_SECONDS + 2)
"""By then every metadata process has what was published, and no Start that it let pass is under way."""


def departure_begin(storage: Storage, *, at: datetime) -> None:
    """Count from here; what lies there now is filled in by the next check."""
    storage.departing_since = at
    storage.departing_from_blocks = storage.departing_from_bytes = None
    storage.departing_mark = None
    storage.drained_at = None


def departure_end(storage: Storage) -> None:
    departure_begin(storage, at=timezone.now())
    storage.departing_since = None


def departure_note(
    storage: Storage, usage: StorageUsage | None, *, limits: HealthLimits, at: datetime
) -> bool:
    """Keep the progress of a drain or a removal; whether the data plane must know of something."""
    if storage.departing_since is None:
        return False
    if usage is not None:
        _progress(storage, usage, at)
    is_given_up = (
        storage.is_leaving
        and not storage.is_abandoned
        and not storage.is_available
        and limits.abandon_seconds > 0
        and at - storage.departing_since >= timedelta(seconds=limits.abandon_seconds)
    )
    if is_given_up:
        storage.is_abandoned = True
        message = f"it did not answer, {limits.abandon_seconds:g} s after its removal began"
        turn_note(storage, HealthEvent.ABANDONED, at=at, message=message)
    return is_given_up


def _progress(storage: Storage, usage: StorageUsage, at: datetime) -> None:
    if storage.departing_from_bytes is None:
        storage.departing_from_blocks, storage.departing_from_bytes = usage.blocks, usage.used_bytes
    # What was being written when it began counts too: there is more to go than was seen at first.
    storage.departing_from_blocks = max(storage.departing_from_blocks or 0, usage.blocks)
    storage.departing_from_bytes = max(storage.departing_from_bytes, usage.used_bytes)
    mark = storage.departing_mark
    if mark is None:
        storage.departing_mark = Mark(at.timestamp(), usage.used_bytes)
    else:
        storage.departing_mark = mark.moved(at.timestamp(), usage.used_bytes)


def storage_abandon(*, acting: Actor, name: str) -> Storage:
    """Give up a storage that is being removed: its blocks are forgotten, its objects are left where they are.

    Raises NOT_FOUND, and INVALID_ARGUMENT for one that is not being removed.
    """
    acting.require_all_groups()
    with transaction.atomic():
        storage = Storage.objects.select_for_update().filter(pk=storage_get(name=name).pk).first()
        if storage is None or not storage.is_leaving:
            raise DomainError(
                Code.INVALID_ARGUMENT, f"storage {name} is not being removed: remove it first", field="name"
            )
        if storage.is_abandoned:
            return storage
        storage.is_abandoned = True
        storage.save(update_fields=["is_abandoned"])
        turn_note(storage, HealthEvent.ABANDONED, at=timezone.now(), message=f"by {acting.name}")
        audit_record(acting=acting, action="storage.abandon", kind="storage", name=name)
        registry_publish_on_commit(lambda _: [storage.entry()])
    return storage


def departures_settle(*, client: redis.Redis, now: datetime) -> list[str]:
    """Let go of what the index holds nothing more of: leaving storages and lost segments.

    Of drained ones it is noted. The names of the storages that went, of those with a segment that
    did, and of those that are drained now. Raises redis.RedisError where any part of the index does
    not answer: it may hold something.
    """
    known = now - KNOWN_AFTER
    departing = Storage.objects.filter(departing_since__lte=known)
    leaving = list(departing.filter(is_leaving=True))
    draining = list(departing.filter(is_draining=True, is_leaving=False, drained_at__isnull=True))
    lost = list(
        StorageSegment.objects.filter(
            Q(storage__is_leaving=False), state=SegmentState.LOST, lost_at__lte=known
        ).select_related("storage")
    )
    if not (leaving or lost or draining) or pending_publications(before=now):
        return []
    usages = usage_by_storage(client)
    return [
        *(storage.name for storage in leaving if storage_settle(storage, usages)),
        *_settle_segments(lost, usages),
        *(storage.name for storage in draining if _drain_settle(storage, usages, now)),
    ]


@transaction.atomic
def _drain_settle(storage: Storage, usages: UsageByNumber, now: datetime) -> bool:
    """Note that a drain is through, once a drain; whether it is."""
    if holds_any(usage_of(storage, usages)):
        return False
    # The drain that `usages` were read for, and no other that began meanwhile.
    same = Storage.objects.select_for_update().filter(
        pk=storage.pk, departing_since=storage.departing_since, is_leaving=False, drained_at__isnull=True
    )
    row = same.first()
    if row is None:
        return False
    row.drained_at = now
    row.save(update_fields=["drained_at"])
    turn_note(row, HealthEvent.DRAINED, at=now)
    return True


def storage_settle(storage: Storage, usages: UsageByNumber) -> bool:
    """Let a leaving storage go if nothing lies there; whether it went."""
    if holds_any(usage_of(storage, usages)):
        return False
    with transaction.atomic():
        row = Storage.objects.select_for_update().filter(pk=storage.pk, is_leaving=True).first()
        if row is None:
            return False
        gone, now = Removed("storage", row.name, row.number), timezone.now()
        segments = [_traces_of(segment) for segment in row.segments.all()]
        incidents_end_all(row.name, at=now)
        event_record(
            at=now,
            kind="storage.removed",
            subject_kind="storage",
            subject=row.name,
            message=f"Storage {row.name} is gone: the index holds nothing of it any more.",
        )
        row.delete()
        publication = registry_publish_on_commit(lambda _: [], removed=[gone])
        removals_note(version=publication.version, removed=segments)
    return True


def _settle_segments(lost: list[StorageSegment], usages: UsageByNumber) -> Iterator[str]:
    for segment in lost:
        if holds_any(usages.get(segment.number, StorageUsage())):
            continue
        with transaction.atomic():
            storage = Storage.objects.select_for_update().filter(pk=segment.storage_id).first()
            if storage is None or not segment.delete()[0]:
                continue
            turn_note(storage, HealthEvent.SEGMENT_SETTLED, at=timezone.now(), node_id=segment.node_id)
            publication = registry_publish_on_commit(partial(_entry_alone, storage))
            removals_note(version=publication.version, removed=[_traces_of(segment)])
        yield storage.name


def _traces_of(segment: StorageSegment) -> Removed:
    """What control purges of a segment later: it has no entry of its own in the registry."""
    return Removed("segment", f"{segment.node_id}#{segment.number}", segment.number)


def _entry_alone(storage: Storage, _: int) -> list[StorageEntry]:
    return [storage.entry()]
