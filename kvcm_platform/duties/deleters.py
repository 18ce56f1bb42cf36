"""The storage backends as the deletion use case sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core.deletion import UNKNOWN_STORAGE, Deleter, ObjectRefused, PendingObject
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index.pending import RedisRangeLedger, RedisSlotLedger
from kvcm_platform.storage.backend import DataStorageBackend, FreedObject, Ledgers
from kvcm_platform.storage.registry import backend_for

log = structlog.get_logger(__name__)

MOST_FAILURES = 16
"""After so many objects in a row that make a backend fail no further one is tried."""


@dataclass(slots=True)
class BackendDeleter:
    """One storage's deleter (core.deletion.Deleter)."""

    leaves_objects: ClassVar[bool] = False
    backend: DataStorageBackend

    async def delete(self, objects: Sequence[PendingObject]) -> list[str]:
        try:
            return await self.backend.delete(_freed(objects))
        except RedisError:
            raise
        except Exception as error:
            log.exception("a storage's backend failed", storage=self.backend.entry.name)
            if len(objects) == 1:
                return [ObjectRefused(f"{type(error).__name__}: {error}")]
            return await self._one_by_one(objects)

    async def _one_by_one(self, objects: Sequence[PendingObject]) -> list[str]:
        """One that makes the backend fail must not keep the others; where all do, the storage refuses."""
        reasons: list[str] = []
        for at, item in enumerate(objects):
            reasons += await self.delete([item])
            if at + 1 == MOST_FAILURES and all(reasons):
                return [str(reasons[0])] * len(objects)
        return reasons

    async def settled(self, objects: Sequence[PendingObject]) -> None:
        await self.backend.settled(_freed(objects))


@dataclass(frozen=True, slots=True)
class NothingLeft:
    """The deleter of objects that are gone with what held them, or given up (StorageEntry.has_lost)."""

    leaves_objects: bool

    async def delete(self, objects: Sequence[PendingObject]) -> list[str]:
        return [""] * len(objects)

    async def settled(self, objects: Sequence[PendingObject]) -> None:
        return


def _freed(objects: Sequence[PendingObject]) -> list[FreedObject]:
    return [
        FreedObject(item.uri, item.slots_in_file, item.is_second_pass, item.was_served) for item in objects
    ]


class Deleters:
    """One deleter a storage for the length of a run; or the reason why there is none."""

    def __init__(self, session: IndexSession) -> None:
        self._session = session
        self._storages = session.registry.storage_by_number()
        self._backends: dict[int, DataStorageBackend] = {}

    def of(self, number: int) -> Deleter | str:
        known = self._storages.get(number)
        if known is not None and known.has_lost(number):
            return NothingLeft(number not in known.lost_numbers)
        backend = self.backend(number)
        if backend is None:
            storage = self._storages[number]
            return f"{storage.name}: nothing can be deleted on {storage.type}"
        return backend if isinstance(backend, str) else BackendDeleter(backend)

    def backend(self, number: int) -> DataStorageBackend | str | None:
        """The storage itself, the reason why it cannot be used now, or None where its kind has no backend."""
        storage = self._storages.get(number)
        if storage is None:
            return UNKNOWN_STORAGE
        if not storage.is_available:
            return f"{storage.name}: {storage.unavailable_reason or 'unavailable'}"
        if number not in self._backends:
            index = self._session.index
            slots, ranges = RedisSlotLedger(index.connection, number), RedisRangeLedger(index, number)
            backend = backend_for(storage, Ledgers(slots, ranges))
            if backend is None:
                return None
            self._backends[number] = backend
        return self._backends[number]

    async def close(self) -> None:
        for backend in self._backends.values():
            await backend.close()
