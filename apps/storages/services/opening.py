"""The probe of a storage that is added, enabled, moved or opened again: it decides at once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.utils import timezone

from apps.common.services import installation_name
from apps.storages.models import Storage
from apps.storages.services.capacity import room_note
from apps.storages.services.content import content_note
from apps.storages.services.history import turns_note
from apps.storages.services.segments import segments_note
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.storage.backend import ProbeResult
from kvcm_platform.storage.probe import probe

_AT_ONCE = HealthLimits(failures=1, successes=1)
"""Hysteresis is for the periodic checks."""


def opened(storage: Storage, *, is_forced: bool = False) -> ProbeResult:
    """Probe a storage, making what a new one lacks. Never call it inside a transaction.

    Raises IO_ERROR where that fails and the storage asks to be available when it is opened, unless
    `is_forced`.
    """
    result = probe(storage.entry(), may_create_root=True, owner=owner_of(storage.name))
    if storage.check_storage_available_when_open and not result.is_ok and not is_forced:
        raise DomainError(Code.IO_ERROR, f"storage {storage.name} is not available: {result.message}")
    return result


def owner_of(storage_name: str) -> str:
    """What this installation puts on a storage as its owner's name."""
    return owners_of([storage_name])[storage_name]


def owners_of(storage_names: Iterable[str]) -> dict[str, str]:
    """The same for several; one query."""
    installation = installation_name()
    return {name: f"{installation}/{name}" for name in storage_names}


def result_apply(storage: Storage, result: ProbeResult, *, at: datetime) -> None:
    """Write a result into the row's members."""
    storage.health_message = result.message[:500]
    storage.health_latency_ms = result.latency_ms
    storage.health_checked_at = at
    if result.used_bytes is not None or result.capacity_bytes is not None or result.is_ok:
        storage.device_used_bytes = result.used_bytes
        storage.device_capacity_bytes = result.capacity_bytes


def full_note(storage: Storage, result: ProbeResult, *, capacity_reason: str = "") -> None:
    """Say whether the storage takes new blocks, for its device's reason or its capacity's."""
    if result.is_ok:
        device_reason = (result.message[:500] or "it is full") if result.is_full else ""
        storage.full_reason = device_reason or capacity_reason or storage.full_reason
        storage.is_full = result.is_full or storage.is_over_capacity
    if not storage.is_full:
        storage.full_reason = ""


def opening_note(storage: Storage, result: ProbeResult, *, is_new: bool) -> None:
    """Take the result of an opening over into a saved row, inside the caller's transaction."""
    was_available, was_full = storage.is_available, storage.is_full
    now, previous_at = timezone.now(), storage.health_checked_at
    result_apply(storage, result, at=now)
    storage.is_available = result.is_ok
    full_note(storage, result)
    storage.failures_in_row = 0 if result.is_ok else _AT_ONCE.failures
    storage.successes_in_row = 1 if result.is_ok else 0
    content_note(storage, result, at=now)
    room_note(storage, None, at=now, previous_at=previous_at)
    segments_note(storage, result, limits=_AT_ONCE, at=now, previous_at=previous_at)
    turns_note(storage, was_available=None if is_new else was_available, was_full=was_full, at=now)
