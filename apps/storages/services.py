"""Changes of storages. Each is one transaction of row, audit entry and registry version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

import redis
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.redis_client import blocks_client
from apps.common.services import Removed, number_next, registry_publish_on_commit
from apps.storages.models import MAX_NUMBER, Storage, StorageCandidate, StorageHealthChange
from apps.storages.selectors import groups_naming, storage_get
from apps.storages.usage import usage_by_storage
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import (
    LOCATING_FIELDS,
    StorageSettings,
    check_storage_settings,
    check_storage_spec,
    spec_kept,
)
from kvcm_platform.core.validation.values import check_object_name
from kvcm_platform.core.validation.versions import require_version
from kvcm_platform.storage.probe import ProbeResult, probe

FAILURES_UNTIL_UNAVAILABLE = 2
_SETTINGS = tuple(field.name for field in fields(StorageSettings))


def storage_add(
    *, acting: Actor, name: str, kind: StorageType, spec: Mapping[str, Any], settings: StorageSettings
) -> Storage:
    """Add a storage, make its missing root folder, probe it once and publish it with the result.

    Raises INVALID_ARGUMENT, DUPLICATE for a taken name, and IO_ERROR where the probe fails and
    `check_storage_available_when_open` asks for a storage that works.
    """
    acting.require_all_groups()
    storage = Storage(name=check_object_name(name), type=kind.value, spec=check_storage_spec(kind, spec))
    _apply(storage, check_storage_settings(settings))
    _require_free(name)
    if storage.is_enabled:
        _note_probe(storage, _opened(storage))
    with transaction.atomic():
        _require_free(name)
        storage.number = number_next(kind="storage", at_most=MAX_NUMBER)
        storage.updated_at = timezone.now()
        storage.save(force_insert=True)
        _note_health_change(storage)
        audit_record(acting=acting, action="storage.add", kind="storage", name=name, after=_state(storage))
        registry_publish_on_commit(lambda _: [storage.entry()])
    return storage


def storage_update(
    *,
    acting: Actor,
    name: str,
    kind: StorageType | None = None,
    spec: Mapping[str, Any] | None = None,
    is_spec_complete: bool = False,
    settings: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
    is_forced: bool = False,
) -> Storage:
    """Change a storage. Members of `spec` not given stay, unless `is_spec_complete` or another type.

    Raises NOT_FOUND, INVALID_ARGUMENT, CONFLICT for a stale `expected_version`, and IN_USE for a
    change that makes stored blocks unreachable, unless `is_forced`.
    """
    acting.require_all_groups()
    draft = storage_get(name=name)
    require_version(stored=draft.version, given=expected_version)
    before, was_enabled = _state(draft), draft.is_enabled
    _apply(draft, check_storage_settings(replace(_settings(draft), **(settings or {}))))
    new_kind = kind or StorageType(draft.type)
    if spec is not None or new_kind != draft.type:
        is_whole = is_spec_complete or new_kind != draft.type
        given = spec or {} if new_kind != draft.type else spec_kept(new_kind, spec or {}, draft.spec)
        draft.spec = check_storage_spec(new_kind, {**({} if is_whole else draft.spec), **given})
        draft.type = new_kind.value
    is_moved = _is_moved(before, _state(draft))
    if is_moved and not is_forced:
        _require_empty(draft, "moving it makes them unreachable")
    needs_probe = draft.is_enabled and (not was_enabled or is_moved or is_spec_complete)
    result = _opened(draft, is_forced=is_forced) if needs_probe else None
    return _update_write(acting=acting, draft=draft, before=before, result=result)


@transaction.atomic
def _update_write(
    *, acting: Actor, draft: Storage, before: Mapping[str, Any], result: ProbeResult | None
) -> Storage:
    """Write what was decided outside the transaction, unless the row changed meanwhile."""
    storage = Storage.objects.select_for_update().filter(pk=draft.pk).first()
    if storage is None:
        raise DomainError(Code.NOT_FOUND, f"storage {draft.name} was removed", field="name")
    require_version(stored=storage.version, given=draft.version)
    was_available = storage.is_available
    _apply(storage, _settings(draft))
    storage.type, storage.spec = draft.type, draft.spec
    storage.version += 1
    storage.updated_at = timezone.now()
    if result is not None:
        _note_probe(storage, result)
    storage.save(force_update=True)
    if storage.is_available != was_available:
        _note_health_change(storage)
    name, after = storage.name, _state(storage)
    audit_record(
        acting=acting, action="storage.update", kind="storage", name=name, before=before, after=after
    )
    registry_publish_on_commit(lambda _: [storage.entry()])
    return storage


def storage_set_enabled(*, acting: Actor, name: str, is_enabled: bool) -> Storage:
    """Enable (with a probe, so that it is usable at once) or disable a storage. Raises NOT_FOUND."""
    return storage_update(acting=acting, name=name, settings={"is_enabled": is_enabled})


def storage_remove(*, acting: Actor, name: str, is_forced: bool = False) -> None:
    """Remove a storage. Groups may go on naming it; it counts for them again if it returns.

    Raises NOT_FOUND, IN_USE while blocks lie on it (nobody could delete them afterwards) or, unless
    `is_forced`, while a group names it, and NOT_READY where the index cannot be asked.
    """
    acting.require_all_groups()
    storage = storage_get(name=name)
    naming = groups_naming([name], acting=acting).get(name, [])
    if naming and not is_forced:
        raise DomainError(Code.IN_USE, f"storage {name} is a candidate of {', '.join(naming)}")
    _require_empty(storage, "remove them first")
    with transaction.atomic():
        storage = Storage.objects.select_for_update().get(pk=storage.pk)
        audit_record(
            acting=acting, action="storage.remove", kind="storage", name=name, before=_state(storage)
        )
        storage.delete()
        registry_publish_on_commit(lambda _: [], removed=[Removed("storage", name, storage.number)])


@transaction.atomic
def storage_set_health(
    *,
    name: str,
    is_ok: bool,
    message: str = "",
    latency_ms: float | None = None,
    is_full: bool = False,
    checked_at: datetime,
) -> bool:
    """Note the result of a check; returns whether the storage is available now.

    Two failures in a row take it out of placement and reads, one success brings it back; a full one
    leaves placement only. Nothing is published while its availability stays the same.
    """
    storage = Storage.objects.select_for_update().filter(name=name).first()
    if storage is None:
        return False
    storage.failures_in_row = 0 if is_ok else storage.failures_in_row + 1
    was_available, was_full = storage.is_available, storage.is_full
    storage.is_full = is_full
    storage.is_available = is_ok or (was_available and storage.failures_in_row < FAILURES_UNTIL_UNAVAILABLE)
    storage.health_message = message
    storage.health_latency_ms = latency_ms
    storage.health_checked_at = checked_at
    storage.save(
        update_fields=[
            "failures_in_row",
            "is_available",
            "is_full",
            "health_message",
            "health_latency_ms",
            "health_checked_at",
        ]
    )
    if (storage.is_available, storage.is_full) != (was_available, was_full):
        _note_health_change(storage)
        registry_publish_on_commit(lambda _: [storage.entry()])
    return storage.is_available


def candidates_set(*, group_name: str, storage_names: Iterable[str]) -> None:
    """Write a group's order of storages, inside the caller's transaction."""
    StorageCandidate.objects.filter(group_name=group_name).delete()
    StorageCandidate.objects.bulk_create(
        StorageCandidate(group_name=group_name, storage_name=name, position=position)
        for position, name in enumerate(storage_names)
    )


def _require_free(name: str) -> None:
    if Storage.objects.filter(name=name).exists():
        raise DomainError(Code.DUPLICATE, f"storage {name} exists", field="name")


def _require_empty(storage: Storage, hint: str) -> None:
    try:
        usage = usage_by_storage(blocks_client()).get(storage.number)
    except redis.RedisError as error:
        raise DomainError(
            Code.NOT_READY, f"cannot tell whether blocks lie on {storage.name}: {error}"
        ) from error
    if usage is not None and usage.used_bytes:
        raise DomainError(
            Code.IN_USE,
            f"storage {storage.name} holds {usage.blocks} blocks ({usage.used_bytes} bytes); {hint}",
        )


def _opened(storage: Storage, *, is_forced: bool = False) -> ProbeResult:
    result = probe(storage.entry(), may_create_root=True)
    if storage.check_storage_available_when_open and not result.is_ok and not is_forced:
        raise DomainError(Code.IO_ERROR, f"storage {storage.name} is not available: {result.message}")
    return result


def _note_probe(storage: Storage, result: ProbeResult) -> None:
    """The probe of an opening decides at once; hysteresis is for the periodic checks."""
    storage.is_available, storage.is_full = result.is_ok, result.is_full
    storage.failures_in_row = 0 if result.is_ok else FAILURES_UNTIL_UNAVAILABLE
    storage.health_message = result.message
    storage.health_latency_ms = result.latency_ms
    storage.health_checked_at = timezone.now()


def _note_health_change(storage: Storage) -> None:
    if storage.health_checked_at is not None:
        StorageHealthChange.objects.create(
            storage=storage,
            at=storage.health_checked_at,
            is_available=storage.is_available,
            message=storage.health_message,
            latency_ms=storage.health_latency_ms,
        )


def _settings(storage: Storage) -> StorageSettings:
    return StorageSettings(**{name: getattr(storage, name) for name in _SETTINGS})


def _apply(storage: Storage, settings: StorageSettings) -> None:
    for name in _SETTINGS:
        setattr(storage, name, getattr(settings, name))


def _is_moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the change points the storage at another place."""
    if before["type"] != after["type"]:
        return True
    return any(before["spec"].get(name) != after["spec"].get(name) for name in LOCATING_FIELDS)


def _state(storage: Storage) -> dict[str, Any]:
    return {
        "type": storage.type,
        "spec": dict(storage.spec),
        **{name: getattr(storage, name) for name in _SETTINGS},
    }
