"""The background duties of the index, composed: sessions, trims, reservations, pushes, deletions.

Each is safe to run anywhere and to stop anywhere; the lease only saves work.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from apps.cache_index.index_session import IndexSession
from kvcm_platform.core.deletion import UNKNOWN_STORAGE, Deleter, DeletionReport, PendingObject, delete_due
from kvcm_platform.index import keyspace, leaving, sweeps, trims
from kvcm_platform.index.pending import RedisPending, RedisSlotLedger
from kvcm_platform.index.redis_index import shard_of
from kvcm_platform.storage.backend import DataStorageBackend, FreedObject
from kvcm_platform.storage.registry import backend_for

RUN_SECONDS = 20.0
"""A run ends after this long; what is left is due again at once."""
LEASE_MS = 10_000
DELETE_BATCH = 512


@dataclass(slots=True)
class DutiesReport:
    sessions: int = 0
    trimmed: int = 0
    reservations: int = 0
    pushes: int = 0
    cleared: int = 0
    deletions: DeletionReport = field(default_factory=DeletionReport)


@dataclass(slots=True)
class BackendDeleter:
    """A storage backend as the deletion use case sees it."""

    backend: DataStorageBackend

    async def delete(self, objects: Sequence[PendingObject]) -> list[str]:
        return await self.backend.delete(_freed(objects))

    async def settled(self, objects: Sequence[PendingObject]) -> None:
        await self.backend.settled(_freed(objects))


def _freed(objects: Sequence[PendingObject]) -> list[FreedObject]:
    return [FreedObject(item.uri, item.slots_in_file, item.is_second_pass) for item in objects]


class Deleters:
    """One deleter a storage for the length of a run; or the reason why there is none."""

    def __init__(self, session: IndexSession) -> None:
        self._session = session
        self._storages = {storage.number: storage for storage in session.registry.storages.values()}
        self._backends: dict[int, DataStorageBackend] = {}

    def of(self, number: int) -> Deleter | str:
        storage = self._storages.get(number)
        if storage is None:
            return UNKNOWN_STORAGE
        if not storage.is_available:
            return f"{storage.name}: {storage.unavailable_reason or 'unavailable'}"
        if number not in self._backends:
            backend = backend_for(storage, RedisSlotLedger(self._session.index.connection, number))
            if backend is None:
                return f"{storage.name}: nothing can be deleted on {storage.type}"
            self._backends[number] = backend
        return BackendDeleter(self._backends[number])

    async def close(self) -> None:
        for backend in self._backends.values():
            await backend.close()


async def duties_run(session: IndexSession, *, seconds: float = RUN_SECONDS) -> DutiesReport:
    """One round of everything that is due, and deletions until none is or the time is up."""
    report = DutiesReport()
    index = session.index
    storages = list(session.registry.storages.values())
    for entry in session.registry.instances.values():
        swept = sweeps.SweptShard(shard_of(entry), entry)
        report.sessions += await sweeps.sweep_sessions(index, swept, storages)
    for entry in session.leaving:
        swept = sweeps.SweptShard(shard_of(entry), entry)
        report.sessions += await sweeps.sweep_sessions(index, swept, storages, is_forced=True)
    report.trimmed += await trims.resume(index)
    groups = {group.number for group in session.registry.groups.values()}
    for number in sorted(groups | {entry.group_number for entry in session.leaving}):
        report.reservations += await sweeps.sweep_reservations(index, number)
    await _delete(session, report, time.monotonic() + seconds)
    for entry in session.leaving:
        report.cleared += await leaving.clear(index, entry)
    await index.pusher.flush()
    report.pushes += await sweeps.sweep_pushes(
        index, [shard_of(e) for e in session.registry.instances.values()]
    )
    return report


async def _delete(session: IndexSession, report: DutiesReport, deadline: float) -> None:
    deleters = Deleters(session)
    try:
        waiting = [RedisPending(session.index, shard_of(entry)) for entry in session.instances]
        while waiting and time.monotonic() < deadline:
            await session.index.connection.call("PEXPIRE", keyspace.DUTIES_LEASE, LEASE_MS)
            still = []
            for pending in waiting:
                if await delete_due(pending, deleters.of, DELETE_BATCH, report.deletions) == DELETE_BATCH:
                    still.append(pending)
            await session.index.pusher.flush()
            waiting = still
    finally:
        await deleters.close()


@asynccontextmanager
async def duties_lease(session: IndexSession) -> AsyncIterator[bool]:
    """Holds the lease of a run; gives False while another process has it."""
    connection = session.index.connection
    taken = await connection.call("SET", keyspace.DUTIES_LEASE, "1", "NX", "PX", LEASE_MS)
    await connection.call("DEL", keyspace.DUTIES_QUEUED)
    try:
        yield taken is not None
    finally:
        if taken is not None:
            await connection.call("DEL", keyspace.DUTIES_LEASE)
