"""A short-lived connection to the block index for tasks and commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kvcm_platform.core.registry import InstanceEntry, Registry
from kvcm_platform.index import homes, keyspace, leaving
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.embedded.rocks import RocksStore
from kvcm_platform.index.local.connection import LocalConnection
from kvcm_platform.index.local.server import LocalServer
from kvcm_platform.index.placed import PlacedConnection
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.registry_mirror import RegistryMirror


@dataclass(frozen=True, slots=True)
class IndexSession:
    """The index, the registry as published, and removed instances that still have data."""

    index: RedisIndex
    registry: Registry
    leaving: tuple[InstanceEntry, ...]
    away: frozenset[int] = frozenset()
    """Numbers of instances whose index is in a metadata process: none of the index's business."""

    @property
    def instances(self) -> list[InstanceEntry]:
        registered = self.registry.instances.values()
        return [*(entry for entry in registered if entry.number not in self.away), *self.leaving]


@asynccontextmanager
async def index_session(redis_url: str) -> AsyncIterator[IndexSession]:
    """Connects, reads the registry, and at the end pushes what was changed. Raises redis.RedisError."""
    platform = connection_to(redis_url)
    mirror = RegistryMirror(platform, redis_url)
    connection = PlacedConnection(platform, lambda: mirror.places, connection_to)
    try:
        await connection.connect()
        await mirror.refresh()
        gone = leaving.decode(await connection.call("HGETALL", keyspace.LEAVING))
        away = await homes.away(connection, [*mirror.current.instances.values(), *gone])
        index = RedisIndex(connection)
        still_here = tuple(entry for entry in gone if entry.number not in away)
        yield IndexSession(index, mirror.current, still_here, away)
        await index.pusher.flush()
    finally:
        await connection.close()


@asynccontextmanager
async def rocksdb_session(redis_url: str, folder: Path) -> AsyncIterator[IndexSession]:
    """The index of a metadata process that is stopped.

    Raises DomainError(IN_USE) while it runs, redis.RedisError when the registry cannot be read.
    """
    store = RocksStore(folder)
    platform = connection_to(redis_url)
    try:
        await platform.connect()
        mirror = RegistryMirror(platform, redis_url)
        await mirror.refresh()
        index = RedisIndex(LocalConnection(LocalServer(store), platform))
        yield IndexSession(index, mirror.current, ())
    finally:
        await platform.close()
        await store.close()
