"""Changes storages: settings, spec, enabled or not, draining or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.services import registry_publish_on_commit
from apps.storages.choices import HealthEvent
from apps.storages.models import Storage
from apps.storages.selectors import storage_get
from apps.storages.services.content import content_forget
from apps.storages.services.departure import departure_begin, departure_end
from apps.storages.services.history import turn_note
from apps.storages.services.opening import opened, opening_note
from apps.storages.services.row import (
    apply_settings,
    require_empty,
    require_staying,
    settings_of,
    state_of,
)
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import (
    LOCATING_FIELDS,
    check_storage_settings,
    check_storage_spec,
    spec_beyond_protocol,
    spec_kept,
)
from kvcm_platform.core.validation.versions import require_version
from kvcm_platform.storage.backend import ProbeResult


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
    """Change a storage. Members of `spec` not given stay, unless the type changes or `is_spec_complete`:
    the spec came over the protocol, which says all that it has a place for.

    Raises NOT_FOUND, INVALID_ARGUMENT, CONFLICT for a stale `expected_version`, IN_USE for one that is
    being removed, and, unless `is_forced`, IN_USE for a change that makes stored blocks unreachable and
    IO_ERROR where it must be available and is not. After a forced move the blocks that are not at the
    new place are dropped.
    """
    acting.require_all_groups()
    draft = storage_get(name=name)
    require_version(stored=draft.version, given=expected_version)
    require_staying(draft)
    before, was_open = state_of(draft), draft.is_enabled and not draft.is_draining
    apply_settings(draft, check_storage_settings(replace(settings_of(draft), **(settings or {}))))
    new_kind = kind or StorageType(draft.type)
    if spec is not None or new_kind != draft.type:
        given, kept = spec or {}, dict[str, Any]()
        if new_kind == draft.type:
            given = spec_kept(new_kind, given, draft.spec)
            kept = spec_beyond_protocol(new_kind, draft.spec) if is_spec_complete else draft.spec
        draft.spec = check_storage_spec(new_kind, {**kept, **given})
        draft.type = new_kind.value
    is_moved = _is_moved(before, state_of(draft))
    if is_moved and not is_forced:
        require_empty(draft, "moving it makes them unreachable")
    is_opened = draft.is_enabled and (not before["is_enabled"] or (not draft.is_draining and not was_open))
    needs_probe = is_opened or (draft.is_enabled and (is_moved or is_spec_complete))
    result = opened(draft, is_forced=is_forced) if needs_probe else None
    return _write(acting=acting, draft=draft, before=before, result=result, is_moved=is_moved)


@transaction.atomic
def _write(
    *, acting: Actor, draft: Storage, before: Mapping[str, Any], result: ProbeResult | None, is_moved: bool
) -> Storage:
    """Write what was decided outside the transaction, unless the row changed meanwhile."""
    storage = Storage.objects.select_for_update().filter(pk=draft.pk).first()
    if storage is None:
        raise DomainError(Code.NOT_FOUND, f"storage {draft.name} was removed", field="name")
    require_version(stored=storage.version, given=draft.version)
    require_staying(storage)
    apply_settings(storage, settings_of(draft))
    storage.type, storage.spec = draft.type, draft.spec
    storage.version += 1
    storage.updated_at = timezone.now()
    if is_moved:
        content_forget(storage)
    for event in _turns(storage, before, storage.updated_at):
        turn_note(storage, event, at=storage.updated_at, message=storage.maintenance_note[:500])
    if result is not None:
        opening_note(storage, result, is_new=not before["is_enabled"])
    storage.save(force_update=True)
    name, after = storage.name, state_of(storage)
    audit_record(
        acting=acting, action="storage.update", kind="storage", name=name, before=before, after=after
    )
    registry_publish_on_commit(lambda _: [storage.entry()])
    return storage


def _turns(storage: Storage, before: Mapping[str, Any], now: datetime) -> Iterator[HealthEvent]:
    if storage.is_enabled != before["is_enabled"]:
        yield HealthEvent.ENABLED if storage.is_enabled else HealthEvent.DISABLED
    if storage.is_draining and not before["is_draining"]:
        departure_begin(storage, at=now)
        yield HealthEvent.DRAINING
    elif before["is_draining"] and not storage.is_draining:
        departure_end(storage)
        yield HealthEvent.DRAIN_ENDED


def storage_set_enabled(*, acting: Actor, name: str, is_enabled: bool) -> Storage:
    """Enable (with a probe, so that it is usable at once) or disable a storage. Raises NOT_FOUND."""
    return storage_update(acting=acting, name=name, settings={"is_enabled": is_enabled})


def _is_moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the change points the storage at another place."""
    if before["type"] != after["type"]:
        return True
    return any(before["spec"].get(name) != after["spec"].get(name) for name in LOCATING_FIELDS)
