"""How tests of storages look at the index, and what they pretend lies there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import redis
from django.utils import timezone

from apps.storages.models import Storage
from apps.storages.services import CheckedStorage, checks_note
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import WIRE_STORAGE_TYPE, StorageType
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import StorageUsage
from kvcm_platform.storage.backend import ProbeResult
from kvcm_platform.storage.registry import KINDS
from tests.factories.objects import make_group, make_instance

LIMITS = HealthLimits()


def published(index: redis.Redis, name: str = "nfs_a") -> StorageEntry:
    return index_registry.read(index).storages[name]


def occupy(index: redis.Redis, storage: Storage, size: int = 4096, *, number: int | None = None) -> None:
    """Make the index say that one serving block of an instance lies on the storage (or on `number`)."""
    if b"group:chat" not in index.hkeys(keyspace.REGISTRY):
        make_group(storage_candidates=(storage.name,))
    entry = make_instance()
    ref = WIRE_STORAGE_TYPE[StorageType(storage.type)] << 16 | (number or storage.number)
    index.hset(keyspace.instance(entry.number, 0), mapping={f"b:{ref}:s": size, f"n:{ref}:s": 1})


def vacate(index: redis.Redis) -> None:
    """Take everything back that `occupy` did."""
    for entry in index_registry.read(index).instances.values():
        index.delete(keyspace.instance(entry.number, 0))


def end_check(index: redis.Redis, number: int, *, ago_seconds: float = 0) -> None:
    """Pretend that the duties were through with the check of a storage's blocks a while ago."""
    (seconds, _), request = index.time(), index.hget(keyspace.STORAGE_CHECKS, str(number))
    ended = {f"{number}": request, f"{number}:ended": round((seconds - ago_seconds) * 1000)}
    index.hset(keyspace.STORAGE_CHECKED, mapping=ended)


def check(
    name: str,
    is_ok: bool,
    message: str = "",
    *,
    at: datetime | None = None,
    usages: dict[int, StorageUsage] | None = None,
    limits: HealthLimits = LIMITS,
    **more: Any,
) -> bool:
    """Note one check of a storage; whether it is available afterwards."""
    storage = Storage.objects.get(name=name)
    result = ProbeResult(is_ok, message, **more)
    checked = CheckedStorage(storage.entry(), result, at or timezone.now())
    checks_note(checks=[checked], usages=usages, limits=limits)
    return Storage.objects.get(name=name).is_available


@contextmanager
def probed_with(
    monkeypatch: pytest.MonkeyPatch, probe: Any, kind: StorageType = StorageType.NFS
) -> Iterator[None]:
    """Storages of a type answer as `probe` does."""
    with monkeypatch.context() as patch:
        patch.setitem(KINDS, kind, replace(KINDS[kind], probe=probe))
        yield
