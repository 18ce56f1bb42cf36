"""Removes storages, and calls removals off.

Nobody could delete blocks of a storage that is gone. So every storage leaves first: published as
neither read nor written, its blocks cleared (duties/clearing.py); its row goes with the last of them.
"""

from __future__ import annotations

import time

import redis
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.redis_client import blocks_client
from apps.common.services import registry_publish_on_commit
from apps.storages.choices import HealthEvent
from apps.storages.models import Storage
from apps.storages.selectors import groups_naming, storage_get
from apps.storages.services.departure import (
    KNOWN_AFTER,
    departure_begin,
    departure_end,
    storage_settle,
)
from apps.storages.services.history import turn_note
from apps.storages.services.opening import opened, opening_note
from apps.storages.services.row import require_empty, state_of
from apps.storages.usage import usage_by_storage
from kvcm_platform.core.errors import Code, DomainError

_WATCHER = Actor.system("storages")
SEEN_SECONDS = 0.3
"""Metadata processes have a publication by then, unless they are cut off from the index altogether."""


def storage_remove(
    *, acting: Actor, name: str, is_forced: bool = False, may_be_named: bool = False
) -> Storage | None:
    """Remove a storage: None when it is gone, its row while its blocks go first (`is_leaving`).

    Groups may go on naming it; it counts for them again if one of its name returns. Raises NOT_FOUND,
    and unless `is_forced` IN_USE while blocks lie on it or, unless it `may_be_named`, while a group
    names it, and NOT_READY where the index cannot be asked.
    """
    acting.require_all_groups()
    storage = storage_get(name=name)
    if storage.is_leaving:
        return storage
    visible = groups_naming([name], acting=acting).get(name, [])
    if visible and not (is_forced or may_be_named):
        raise DomainError(Code.IN_USE, f"storage {name} is a candidate of {', '.join(visible)}")
    if not is_forced:
        require_empty(storage, "remove them first, or force it to have them removed")
    was_written = storage.entry().is_writable and bool(groups_naming([name], acting=_WATCHER))
    was_changed = timezone.now() - storage.updated_at < KNOWN_AFTER
    leaving = _leave(acting, storage)
    if was_written or was_changed:
        time.sleep(SEEN_SECONDS)
    return leaving if _still_holds(leaving) else None


@transaction.atomic
def _leave(acting: Actor, storage: Storage) -> Storage:
    row = Storage.objects.select_for_update().filter(pk=storage.pk).first()
    if row is None:
        raise DomainError(Code.NOT_FOUND, f"storage {storage.name} was removed", field="name")
    if row.is_leaving:
        return row  # Somebody else was faster: it is counted, and given up, from there.
    now = timezone.now()
    row.is_leaving, row.is_abandoned = True, False
    row.version += 1
    departure_begin(row, at=now)
    row.save(force_update=True)
    turn_note(row, HealthEvent.LEAVING, at=now, message=f"by {acting.name}")
    audit_record(acting=acting, action="storage.remove", kind="storage", name=row.name, before=state_of(row))
    registry_publish_on_commit(lambda _: [row.entry()])
    return row


def _still_holds(storage: Storage) -> bool:
    """Whether the storage stays for now: control lets it go later."""
    try:
        return not storage_settle(storage, usage_by_storage(blocks_client()))
    except redis.RedisError:
        return True


def storage_restore(*, acting: Actor, name: str, is_forced: bool = False) -> Storage:
    """Call the removal of a storage off: the blocks that are still there stay, and are served again.

    Raises NOT_FOUND, INVALID_ARGUMENT for one that is not being removed, IN_USE for one that was given up
    (its blocks are being forgotten), and IO_ERROR as for one that is enabled.
    """
    acting.require_all_groups()
    draft = storage_get(name=name)
    _require_restorable(draft)
    result = opened(draft, is_forced=is_forced) if draft.is_enabled else None
    with transaction.atomic():
        storage = Storage.objects.select_for_update().filter(pk=draft.pk).first()
        if storage is None:
            raise DomainError(Code.NOT_FOUND, f"storage {name} was removed", field="name")
        _require_restorable(storage)
        now = timezone.now()
        storage.is_leaving = False
        storage.version += 1
        departure_end(storage)
        if storage.is_draining:
            departure_begin(storage, at=now)
        turn_note(storage, HealthEvent.STAYS, at=now, message=f"by {acting.name}")
        if result is not None:
            opening_note(storage, result, is_new=False)
        storage.save(force_update=True)
        audit_record(acting=acting, action="storage.restore", kind="storage", name=name)
        registry_publish_on_commit(lambda _: [storage.entry()])
    return storage


def _require_restorable(storage: Storage) -> None:
    if not storage.is_leaving:
        raise DomainError(Code.INVALID_ARGUMENT, f"storage {storage.name} is not being removed", field="name")
    if storage.is_abandoned:
        raise DomainError(
            Code.IN_USE, f"storage {storage.name} was given up: its blocks are being forgotten", field="name"
        )
