"""Adds storages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.services import number_next, registry_publish_on_commit
from apps.storages.choices import HealthEvent
from apps.storages.models import MAX_NUMBER, Storage
from apps.storages.services.departure import departure_begin
from apps.storages.services.history import turn_note
from apps.storages.services.opening import opened, opening_note
from apps.storages.services.row import apply_settings, state_of
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import (
    StorageSettings,
    check_storage_settings,
    check_storage_spec,
)
from kvcm_platform.core.validation.values import check_object_name

ADDRESSES = frozenset({"test-connection", "bulk"})
"""Addresses beside storages over REST: a storage of such a name could not be asked for."""


def storage_add(
    *, acting: Actor, name: str, kind: StorageType, spec: Mapping[str, Any], settings: StorageSettings
) -> Storage:
    """Add a storage, make its missing root folder, probe it once and publish it with the result.

    Raises INVALID_ARGUMENT, DUPLICATE for a taken name, and IO_ERROR where the probe fails and
    `check_storage_available_when_open` asks for a storage that works.
    """
    acting.require_all_groups()
    if check_object_name(name) in ADDRESSES:
        raise invalid("name", f"{name} stands for something else")
    storage = Storage(name=name, type=kind.value, spec=check_storage_spec(kind, spec))
    apply_settings(storage, check_storage_settings(settings))
    _require_free(name)
    result = opened(storage) if storage.is_enabled else None
    with transaction.atomic():
        _require_free(name)
        storage.number = number_next(kind="storage", at_most=MAX_NUMBER)
        storage.updated_at = timezone.now()
        storage.save(force_insert=True)
        if storage.is_draining:
            departure_begin(storage, at=storage.updated_at)
            turn_note(storage, HealthEvent.DRAINING, at=storage.updated_at)
        if result is not None:
            opening_note(storage, result, is_new=True)
        storage.save(force_update=True)
        audit_record(acting=acting, action="storage.add", kind="storage", name=name, after=state_of(storage))
        registry_publish_on_commit(lambda _: [storage.entry()])
    return storage


def _require_free(name: str) -> None:
    taken = Storage.objects.filter(name=name).first()
    if taken is not None:
        state = "is still being removed" if taken.is_leaving else "exists"
        raise DomainError(Code.DUPLICATE, f"storage {name} {state}", field="name")
