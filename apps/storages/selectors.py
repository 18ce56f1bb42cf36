"""Reads of storages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.common.actor import Actor
from apps.storages.models import Storage, StorageCandidate, StorageHealthChange
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
    return Storage.objects.order_by("name")


def storage_get(*, name: str) -> Storage:
    """Raises NOT_FOUND."""
    storage = Storage.objects.filter(name=name).first()
    if storage is None:
        raise DomainError(Code.NOT_FOUND, f"storage {name} does not exist", field="name")
    return storage


def storage_names() -> set[str]:
    return set(Storage.objects.values_list("name", flat=True))


def storage_entries() -> list[StorageEntry]:
    """All storages as the data plane sees them."""
    return [storage.entry() for storage in storage_list()]


def storage_health_changes(*, name: str) -> QuerySet[StorageHealthChange]:
    return StorageHealthChange.objects.filter(storage__name=name).order_by("-id")


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
