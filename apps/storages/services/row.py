"""What the services of storages share about a row: its settings, its state for the audit, its blocks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import redis

from apps.common.redis_client import blocks_client
from apps.storages.models import Storage
from apps.storages.usage import holds_any, usage_by_storage, usage_of
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.sizes import sized
from kvcm_platform.core.validation.storages import StorageSettings
from kvcm_platform.index.stats import StorageUsage

_SETTINGS = tuple(field.name for field in fields(StorageSettings))


def settings_of(storage: Storage) -> StorageSettings:
    return StorageSettings(**{name: getattr(storage, name) for name in _SETTINGS})


def apply_settings(storage: Storage, settings: StorageSettings) -> None:
    for name in _SETTINGS:
        setattr(storage, name, getattr(settings, name))


def state_of(storage: Storage) -> dict[str, Any]:
    """What operators set, as the audit keeps it."""
    return {
        "type": storage.type,
        "spec": dict(storage.spec),
        **{name: getattr(storage, name) for name in _SETTINGS},
    }


def usage_now(storage: Storage) -> StorageUsage:
    """What the index holds of a storage and its segments. Raises NOT_READY where it cannot be asked."""
    try:
        return usage_of(storage, usage_by_storage(blocks_client()))
    except redis.RedisError as error:
        raise DomainError(
            Code.NOT_READY, f"cannot tell whether blocks lie on {storage.name}: {error}"
        ) from error


def require_empty(storage: Storage, hint: str) -> None:
    """Raises IN_USE while blocks lie on a storage, NOT_READY where the index cannot be asked."""
    usage = usage_now(storage)
    if holds_any(usage):
        raise DomainError(
            Code.IN_USE,
            f"storage {storage.name} holds {usage.blocks} blocks ({sized(usage.used_bytes)}); {hint}",
        )


def require_staying(storage: Storage) -> None:
    """Raises IN_USE for a storage under removal: there is nothing to set on it but its end."""
    if storage.is_leaving:
        raise DomainError(
            Code.IN_USE, f"storage {storage.name} is being removed; call its removal off first", field="name"
        )
