"""A short-lived connection to the block index for tasks and commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core.registry import InstanceEntry, Registry
from kvcm_platform.index import homes, keyspace, leaving
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import IndexUnavailable
from kvcm_platform.index.embedded.rocks import RocksStore
from kvcm_platform.index.local.connection import LocalConnection
from kvcm_platform.index.local.server import LocalServer
from kvcm_platform.index.placed import PlacedConnection
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.registry_mirror import RegistryMirror

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexSession:
    """The index, the registry as published, and removed instances that still have data."""

    index: RedisIndex
    registry: Registry
    leaving: tuple[InstanceEntry, ...]
    away: frozenset[int] = frozenset()
    """Numbers of instances whose index is in a metadata process: none of the index's business."""
    cut_off: frozenset[int] = frozenset()
    """Numbers of groups with a Redis of their own that does not answer: nothing is done for them."""
    read_again: Callable[[], Awaitable[IndexSession]] | None = None
    """The same with the registry as it is by then, for work that lasts long. Raises redis.RedisError."""

    @property
    def instances(self) -> list[InstanceEntry]:
        return [*self._registered(self.registry.instances.values()), *self.leaving]

    def instances_of(self, group: str, instance_id: str = "") -> tuple[InstanceEntry, ...]:
        """Those of a group that are registered, or the one with this id: whose blocks may move."""
        leaving = {entry.number for entry in self.leaving}
        return tuple(
            entry
            for entry in self._registered(self.registry.instances_of(group))
            if entry.number not in leaving and instance_id in ("", entry.instance_id)
        )

    def _registered(self, entries: Iterable[InstanceEntry]) -> Iterator[InstanceEntry]:
        for entry in entries:
            if entry.number not in self.away and self.reaches(entry):
                yield entry

    async def all_instances(self) -> list[InstanceEntry]:
        """Those of this moment. Raises IndexUnavailable where the index of one does not answer."""
        now = self if self.read_again is None else await self.read_again()
        if now.cut_off:
            numbers = ", ".join(map(str, sorted(now.cut_off)))
            raise IndexUnavailable(f"the Redis of these groups' own does not answer (group {numbers})")
        return now.instances

    async def instances_in(self, group_number: int) -> list[InstanceEntry]:
        """Those of one group at this moment, removed ones included. Raises IndexUnavailable."""
        return [entry for entry in await self.all_instances() if entry.group_number == group_number]

    def reaches(self, entry: InstanceEntry) -> bool:
        return entry.group_number not in self.cut_off

    @property
    def group_numbers(self) -> list[int]:
        """Of all groups that may hold something, removed ones included."""
        known = {group.number for group in self.registry.groups.values()}
        return sorted((known | {entry.group_number for entry in self.leaving}) - self.cut_off)


@asynccontextmanager
async def index_session(redis_url: str) -> AsyncIterator[IndexSession]:
    """Connects, reads the registry, and at the end pushes what was changed. Raises redis.RedisError."""
    platform = connection_to(redis_url)
    mirror = RegistryMirror(platform, redis_url)
    connection = PlacedConnection(platform, lambda: mirror.places, connection_to)
    try:
        await connection.connect()
        index = RedisIndex(connection)

        async def read() -> IndexSession:
            return await _read(connection, mirror, index, read)

        yield await read()
        await index.pusher.flush()
        await index.pools.flush()
    finally:
        await connection.close()


async def _read(
    connection: PlacedConnection,
    mirror: RegistryMirror,
    index: RedisIndex,
    again: Callable[[], Awaitable[IndexSession]],
) -> IndexSession:
    await mirror.refresh()
    gone = leaving.decode(await connection.call("HGETALL", keyspace.LEAVING))
    entries = [*mirror.current.instances.values(), *gone]
    groups = {group.number for group in mirror.current.groups.values()}
    cut_off = await _cut_off(connection, groups | {entry.group_number for entry in entries})
    away = await homes.away(connection, [one for one in entries if one.group_number not in cut_off])
    still_here = tuple(
        entry for entry in gone if entry.number not in away and entry.group_number not in cut_off
    )
    return IndexSession(index, mirror.current, still_here, away, cut_off, again)


async def _cut_off(connection: PlacedConnection, groups: Iterable[int]) -> frozenset[int]:
    """Those of the groups whose own Redis cannot be used now."""
    own = [number for number in groups if connection.is_placed(keyspace.group(number))]

    async def answers(number: int) -> bool:
        try:
            await connection.call("EXISTS", keyspace.group(number))
        except RedisError as error:
            log.warning("a group's own Redis cannot be used", group=number, reason=str(error))
            return False
        return True

    answered = await asyncio.gather(*map(answers, own))
    return frozenset(number for number, is_there in zip(own, answered, strict=True) if not is_there)


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
