"""Tries a storage before it is saved, or one that is: nothing is changed, nothing is left behind."""

from __future__ import annotations

from collections.abc import Mapping
from threading import BoundedSemaphore
from typing import Any

from apps.common.actor import Actor, Role
from apps.storages.selectors import storage_get
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import check_storage_spec, spec_kept
from kvcm_platform.storage.backend import ProbeResult
from kvcm_platform.storage.probe import probe

AT_ONCE = 8
"""Trials at a time: each may hold a thread for as long as a probe may take."""
_slots = BoundedSemaphore(AT_ONCE)


def storage_try(
    *, acting: Actor, kind: StorageType, spec: Mapping[str, Any], may_create: bool = False
) -> ProbeResult:
    """Probe what a spec describes. A missing root folder stays missing unless it `may_create` it.

    Raises INVALID_ARGUMENT for a spec that could not be saved, TOO_MANY while others are tried.
    """
    _require(acting)
    entry = StorageEntry("", 0, kind, check_storage_spec(kind, spec))
    return _try(entry, may_create=may_create, is_trial=True)


def storage_try_saved(*, acting: Actor, name: str, spec: Mapping[str, Any] | None = None) -> ProbeResult:
    """Probe a saved storage, with other members in its spec where given. Raises NOT_FOUND as well."""
    _require(acting)
    storage = storage_get(name=name)
    kind = StorageType(storage.type)
    changed = check_storage_spec(kind, {**storage.spec, **spec_kept(kind, spec or {}, storage.spec)})
    # As it is, it must be all there.
    return _try(StorageEntry(name, storage.number, kind, changed), is_trial=changed != storage.spec)


def _require(acting: Actor) -> None:
    acting.require(Role.OPERATOR)
    acting.require_all_groups()


def _try(entry: StorageEntry, *, is_trial: bool, may_create: bool = False) -> ProbeResult:
    if not _slots.acquire(blocking=False):
        raise DomainError(Code.TOO_MANY, "too many storages are being tried; try again in a moment")
    try:
        return probe(entry, may_create_root=may_create, is_trial=is_trial)
    finally:
        _slots.release()
