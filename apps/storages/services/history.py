"""Notes what becomes of storages: turns, incidents from beginning to end, samples of checks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from apps.audit.services import event_record
from apps.common.actor import Actor
from apps.common.conditions import Severity
from apps.storages.choices import HealthEvent, IncidentKind
from apps.storages.models import Storage, StorageHealthChange, StorageHealthSample, StorageIncident
from apps.storages.selectors import groups_naming

_WATCHER = Actor.system("health")
SAMPLES_STAY = timedelta(hours=24)
CHANGES_STAY = timedelta(days=90)
ROWS_AT_MOST = 50_000
"""Turns of all storages together, and incidents that are over: a storage may go up and down all day."""
_PRUNED_AT_ONCE = 10_000
"""Rows of each kind a call: what has piled up goes in several."""

_OPENS = {
    HealthEvent.UNAVAILABLE: IncidentKind.UNAVAILABLE,
    HealthEvent.FULL: IncidentKind.FULL,
    HealthEvent.SEGMENT_UNAVAILABLE: IncidentKind.SEGMENT_UNAVAILABLE,
    HealthEvent.SEGMENT_LOST: IncidentKind.SEGMENT_LOST,
    HealthEvent.CONTENT_LOST: IncidentKind.CONTENT_LOST,
}
_SEVERITY = {
    HealthEvent.UNAVAILABLE: Severity.CRITICAL,
    HealthEvent.FULL: Severity.WARNING,
    HealthEvent.CONTENT_LOST: Severity.WARNING,
    HealthEvent.SEGMENT_UNAVAILABLE: Severity.WARNING,
    HealthEvent.SEGMENT_LOST: Severity.WARNING,
}
"""Others are for information."""
_SENTENCES = {
    HealthEvent.AVAILABLE: "is available",
    HealthEvent.UNAVAILABLE: "is unavailable",
    HealthEvent.FULL: "takes no new blocks",
    HealthEvent.HAS_ROOM: "takes new blocks again",
    HealthEvent.ENABLED: "was enabled",
    HealthEvent.DISABLED: "was disabled",
    HealthEvent.DRAINING: "is drained",
    HealthEvent.DRAINED: "holds nothing more: its drain is through",
    HealthEvent.DRAIN_ENDED: "is no longer drained",
    HealthEvent.LEAVING: "is being removed, its blocks first",
    HealthEvent.STAYS: "is no longer being removed",
    HealthEvent.ABANDONED: "was given up: its blocks are forgotten, its objects left",
    HealthEvent.CONTENT_LOST: "may have lost what it held",
    HealthEvent.SEGMENT_FOUND: "has a new segment on node {node}",
    HealthEvent.SEGMENT_UNAVAILABLE: "cannot reach node {node}",
    HealthEvent.SEGMENT_RETURNED: "has its node {node} back",
    HealthEvent.SEGMENT_LOST: "lost what node {node} held",
    HealthEvent.SEGMENT_SETTLED: "holds nothing more of a lost segment of node {node}",
}
_CLOSES: dict[HealthEvent, tuple[IncidentKind, ...]] = {
    HealthEvent.AVAILABLE: (IncidentKind.UNAVAILABLE,),
    HealthEvent.HAS_ROOM: (IncidentKind.FULL,),
    # Nobody looks at a storage that is disabled, and nothing is expected of one that leaves.
    HealthEvent.DISABLED: (IncidentKind.UNAVAILABLE, IncidentKind.FULL),
    HealthEvent.LEAVING: (IncidentKind.FULL,),
    HealthEvent.SEGMENT_RETURNED: (IncidentKind.SEGMENT_UNAVAILABLE,),
    HealthEvent.SEGMENT_LOST: (IncidentKind.SEGMENT_UNAVAILABLE,),
    HealthEvent.SEGMENT_SETTLED: (IncidentKind.SEGMENT_LOST,),
}


def turn_note(
    storage: Storage, event: HealthEvent, *, at: datetime, message: str = "", node_id: str = ""
) -> None:
    """Note a turn, and begin or end the incident that it means; inside the caller's transaction."""
    StorageHealthChange.objects.create(
        storage=storage,
        at=at,
        event=event,
        node_id=node_id,
        is_available=storage.is_available,
        message=message,
        latency_ms=storage.health_latency_ms,
    )
    sentence = f"Storage {storage.name} {_SENTENCES[event].format(node=node_id)}"
    event_record(
        at=at,
        kind=f"storage.{event}",
        subject_kind="storage",
        subject=storage.name,
        message=f"{sentence}: {message.rstrip('.')}." if message else f"{sentence}.",
        severity=_SEVERITY.get(event, Severity.INFO),
        groups=groups_naming([storage.name], acting=_WATCHER).get(storage.name, ()),
    )
    _incidents_end(storage.name, _CLOSES.get(event, ()), node_id, at)
    if event in _OPENS:
        _incident_begin(storage.name, _OPENS[event], node_id, at, message)
    if event is HealthEvent.CONTENT_LOST:
        _incidents_end(storage.name, (IncidentKind.CONTENT_LOST,), node_id, at)


def turns_note(storage: Storage, *, was_available: bool | None, was_full: bool, at: datetime) -> bool:
    """Note what a probe turned; whether it was anything. `was_available` None = nothing was known."""
    events = []
    if storage.is_available != was_available:
        event = HealthEvent.AVAILABLE if storage.is_available else HealthEvent.UNAVAILABLE
        events.append((event, storage.health_message))
    if storage.is_full != was_full:
        event = HealthEvent.FULL if storage.is_full else HealthEvent.HAS_ROOM
        events.append((event, storage.full_reason))
    for event, message in events:
        turn_note(storage, event, at=at, message=message)
    return bool(events)


def incidents_end_all(storage_name: str, *, at: datetime) -> None:
    """The storage is gone, and what was wrong with it."""
    open_ones = StorageIncident.objects.filter(storage_name=storage_name, ended_at__isnull=True)
    open_ones.update(ended_at=at)


def _incident_begin(storage_name: str, kind: IncidentKind, node_id: str, at: datetime, reason: str) -> None:
    try:
        with transaction.atomic():
            StorageIncident.objects.create(
                storage_name=storage_name, kind=kind, node_id=node_id, started_at=at, reason=reason
            )
    except IntegrityError:
        return  # it is open already


def _incidents_end(storage_name: str, kinds: Iterable[IncidentKind], node_id: str, at: datetime) -> None:
    StorageIncident.objects.filter(
        storage_name=storage_name, kind__in=tuple(kinds), node_id=node_id, ended_at__isnull=True
    ).update(ended_at=at)


def samples_note(samples: Iterable[StorageHealthSample]) -> None:
    """Keep the results of checks for the charts."""
    StorageHealthSample.objects.bulk_create(list(samples), batch_size=200)


def history_prune(*, now: datetime) -> int:
    """Drop what is old or too many; returns how many rows went. Bounded: call it again and again."""
    oldest = int((now - SAMPLES_STAY).timestamp())
    samples = StorageHealthSample.objects.filter(second__lt=oldest)
    changes = _beyond(StorageHealthChange.objects.all(), Q(at__lt=now - CHANGES_STAY))
    over = StorageIncident.objects.filter(ended_at__isnull=False)
    incidents = _beyond(over, Q(ended_at__lt=now - CHANGES_STAY))
    gone = 0
    for rows in (samples, changes, incidents):
        ids = list(rows.order_by("pk").values_list("pk", flat=True)[:_PRUNED_AT_ONCE])
        for at in range(0, len(ids), 500):
            gone += rows.model.objects.filter(pk__in=ids[at : at + 500]).delete()[0]
    return gone


def _beyond(rows: QuerySet, is_old: Q) -> QuerySet:
    ids = rows.order_by("-id").values_list("id", flat=True)
    newest_too_many = ids[ROWS_AT_MOST : ROWS_AT_MOST + 1].first() or 0
    return rows.filter(is_old | Q(id__lte=newest_too_many))
