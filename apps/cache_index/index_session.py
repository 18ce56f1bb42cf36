"""A short-lived connection to the block index for tasks and commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kvcm_platform.core.registry import InstanceEntry, Registry
from kvcm_platform.index import keyspace, leaving
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.placed import PlacedConnection
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.registry_mirror import RegistryMirror


@dataclass(frozen=True, slots=True)
class IndexSession:
    """The index, the registry as published, and removed instances that still have data."""

    index: RedisIndex
    registry: Registry
    leaving: tuple[InstanceEntry, ...]

    @property
    def instances(self) -> list[InstanceEntry]:
        return [*self.registry.instances.values(), *self.leaving]


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
        index = RedisIndex(connection)
        yield IndexSession(index, mirror.current, tuple(gone))
        await index.pusher.flush()
    finally:
        await connection.close()
