"""Reads of storages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Avg, Count, F, Max, Min, Q, QuerySet

from apps.common.actor import Actor
from apps.storages.models import (
    OrphanRun,
    Storage,
    StorageCandidate,
    StorageHealthChange,
    StorageHealthSample,
    StorageIncident,
)
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import URI_SCHEME, StorageType
from kvcm_platform.core.validation.storages import SPEC_FIELDS, SpecField
from kvcm_platform.storage.backend import Capabilities
from kvcm_platform.storage.registry import KINDS


@dataclass(frozen=True, slots=True)
class StorageTypeShown:
    """A type of storage as forms need it. `capabilities` is None while it has no backend."""

    type: StorageType
    scheme: str
    fields: tuple[SpecField, ...]
    capabilities: Capabilities | None


def storage_type_list() -> list[StorageTypeShown]:
    return [
        StorageTypeShown(kind, URI_SCHEME[kind], fields, KINDS[kind].capabilities if kind in KINDS else None)
        for kind, fields in SPEC_FIELDS.items()
    ]


def storage_list() -> QuerySet[Storage]:
    """All storages with their segments: one query more, however many there are."""
    return Storage.objects.order_by("name").prefetch_related("segments")


def storage_get(*, name: str) -> Storage:
    """Raises NOT_FOUND."""
    storage = storage_list().filter(name=name).first()
    if storage is None:
        raise DomainError(Code.NOT_FOUND, f"storage {name} does not exist", field="name")
    return storage


def storage_names() -> set[str]:
    return set(Storage.objects.values_list("name", flat=True))


def storage_entries() -> list[StorageEntry]:
    """All storages as the data plane sees them."""
    return [storage.entry() for storage in storage_list()]


def storages_to_check() -> list[StorageEntry]:
    """Storages that are used, or that have to be emptied first: deletions go by what the checks say."""
    return [storage.entry() for storage in storage_list().filter(Q(is_enabled=True) | Q(is_leaving=True))]


def storage_health_changes(*, name: str) -> QuerySet[StorageHealthChange]:
    return StorageHealthChange.objects.filter(storage__name=name).order_by("-id")


def storage_incidents() -> QuerySet[StorageIncident]:
    """Incidents of all storages, also of those that were removed, the newest first."""
    return StorageIncident.objects.order_by("-started_at", "-id")


@dataclass(frozen=True, slots=True)
class SampleBucket:
    """The checks of one span of time. Latencies are None where no check in it ended."""

    at: int
    """Unix seconds of its beginning."""
    checks: int
    failures: int
    min_ms: float | None
    avg_ms: float | None
    max_ms: float | None


def storage_health_buckets(
    *, name: str, since: datetime, until: datetime, bucket_seconds: int
) -> list[SampleBucket]:
    """The checks between two moments in buckets, oldest first; spans without any are left out."""
    samples = StorageHealthSample.objects.filter(
        storage__name=name, second__gte=int(since.timestamp()), second__lt=int(until.timestamp())
    )
    buckets = (
        samples.annotate(bucket=F("second") - F("second") % bucket_seconds)
        .values("bucket")
        .annotate(
            checks=Count("id"),
            failures=Count("id", filter=Q(is_ok=False)),
            low=Min("latency_ms"),
            middle=Avg("latency_ms"),
            high=Max("latency_ms"),
        )
        .order_by("bucket")
    )
    return [
        SampleBucket(row["bucket"], row["checks"], row["failures"], row["low"], row["middle"], row["high"])
        for row in buckets
    ]


def candidates_of(group_names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The storage candidates of each group, in the group's order; one query."""
    found: dict[str, list[str]] = {name: [] for name in group_names}
    rows = StorageCandidate.objects.filter(group_name__in=found).order_by("position")
    for group_name, storage_name in rows.values_list("group_name", "storage_name"):
        found[group_name].append(storage_name)
    return {name: tuple(storages) for name, storages in found.items()}


def groups_naming(storage_names: Iterable[str], *, acting: Actor) -> dict[str, list[str]]:
    """The groups that name each storage, of those that `acting` may see, sorted; one query."""
    found: dict[str, list[str]] = defaultdict(list)
    rows = StorageCandidate.objects.filter(storage_name__in=list(storage_names)).order_by("group_name")
    if acting.groups is not None:
        rows = rows.filter(group_name__in=acting.groups)
    for storage_name, group_name in rows.values_list("storage_name", "group_name"):
        found[storage_name].append(group_name)
    return found


def orphan_run_list(*, name: str) -> QuerySet[OrphanRun]:
    """Searches of a storage for orphans, the newest first, without their samples."""
    found = OrphanRun.objects.filter(storage__name=name).select_related("storage")
    return found.defer("samples").order_by("-id")


def orphan_run_get(*, name: str, run_id: int) -> OrphanRun:
    """Raises NOT_FOUND."""
    run = OrphanRun.objects.select_related("storage").filter(storage__name=name, pk=run_id).first()
    if run is None:
        raise DomainError(Code.NOT_FOUND, f"storage {name} has no search {run_id}", field="id")
    return run
