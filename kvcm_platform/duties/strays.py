"""Numbers that shards have blocks on and no storage has: clearing is told of them, so that usage comes down.

A number leaves the registry when the index holds nothing of it. A metadata process that was frozen
between its plan and its insert may still put blocks on it afterwards, which nobody can read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import structlog

from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import keyspace
from kvcm_platform.index.shards import shards_of
from kvcm_platform.index.storage_walk import live_numbers_of

log = structlog.get_logger(__name__)

LOOK_MS = 10_000
"""Looks are at least so far apart, and a number must be unknown in two in a row."""
REMEMBER_MS = 600_000
"""A look counts for nothing when the next one is later."""


class Strays:
    """One look. What it saw is on record for the next one, whichever process that is."""

    def __init__(self, session: IndexSession, registry_version: int | None) -> None:
        """`registry_version`: the database's; a registry behind it may lack storages. None = not known."""
        self._session = session
        self._registry_version = registry_version
        self._call = session.index.connection.call

    async def numbers(self) -> frozenset[int]:
        """Those that no storage had in this look and in the one before. Raises redis.RedisError."""
        if self._session.read_again is None or self._registry_version is None:
            return frozenset()
        if self._is_in_doubt(self._session):
            await self._forget()
            return frozenset()
        looked = ("SET", keyspace.STORAGE_STRAYS_LOOKED, 1, "NX", "PX", LOOK_MS)
        if await self._call(*looked) is None:
            return frozenset()
        unknown = await self._unknown()
        before = await self._call("GET", keyspace.STORAGE_STRAYS)
        if not unknown:
            await self._forget()
            return frozenset()
        await self._call("SET", keyspace.STORAGE_STRAYS, json.dumps(sorted(unknown)), "PX", REMEMBER_MS)
        return frozenset(unknown & set(json.loads(before or "[]")))

    async def _unknown(self) -> set[int]:
        """By a registry that is read after the usage: it has all that blocks were placed on by then."""
        shards = [shard for entry in self._session.instances for shard in shards_of(entry)]
        live = await live_numbers_of(self._session.index, shards)
        suspects = live - self._session.registry.storage_by_number().keys()
        if not suspects or self._session.read_again is None:
            return set()
        published = await self._call("GET", keyspace.REGISTRY_VERSION)
        now = await self._session.read_again()
        # Doubt is asked for last: the server may have been restored while all this was read.
        if int(published or -1) < (self._registry_version or 0) or self._is_in_doubt(now):
            log.info("numbers without a storage are not judged yet", numbers=sorted(suspects))
            return set()
        return suspects - now.registry.storage_by_number().keys()

    def _is_in_doubt(self, session: IndexSession) -> bool:
        """After a restore the registry may be of an earlier time than the blocks, or the blocks than it."""
        lives = map(session.index.connection.life_of, self._keys(session))
        return any(life.doubt or life.is_undecided for life in lives)

    def _keys(self, session: IndexSession) -> Iterable[str]:
        yield keyspace.GENERATION
        for entry in session.instances:
            yield from (shard.base for shard in shards_of(entry))

    async def _forget(self) -> None:
        await self._call("DEL", keyspace.STORAGE_STRAYS)
