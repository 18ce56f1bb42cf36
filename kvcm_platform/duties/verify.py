"""Checks the objects of an index in doubt: after a failover to a replica, or a restore of an older file.

Until a shard is through, its blocks are misses. Those whose object is gone are removed like any
other. A storage that cannot be asked keeps the shards with its blocks waiting.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable

import structlog

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.removal import MIN_DELETE_DELAY_MS
from kvcm_platform.duties.presence import CannotBeAsked, Presence
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import keyspace
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.shards import ShardRef, shards_of
from kvcm_platform.index.verifying import ShardCheck

log = structlog.get_logger(__name__)


class Verification:
    """One bounded round over all shards in doubt; a server's doubt ends when none of its shards is left."""

    def __init__(self, session: IndexSession, deadline: float, pause: Callable[[], Awaitable[None]]) -> None:
        self._session = session
        self._deadline = deadline
        self._pause = pause
        self._presence = Presence(session)
        self.lost = 0

    async def run(self) -> int:
        """Returns the number of locations that were found without their object."""
        by_server: dict[Connection, list[tuple[InstanceEntry, ShardRef]]] = defaultdict(list)
        by_server[self._session.index.connection.server_of(keyspace.GENERATION)] = []
        for entry in self._session.instances:
            for shard in shards_of(entry):
                by_server[self._session.index.connection.server_of(shard.base)].append((entry, shard))
        try:
            for server, shards in by_server.items():
                if server.life.doubt and not server.life.is_undecided:
                    await self._check(server, shards)
        finally:
            await self._presence.close()
        return self.lost

    async def _check(self, server: Connection, shards: list[tuple[InstanceEntry, ShardRef]]) -> None:
        doubt, left, waiting = server.life.doubt, 0, ""
        for entry, shard in shards:
            check = ShardCheck(self._session.index, entry, shard, MIN_DELETE_DELAY_MS)
            try:
                is_done = await check.is_done() or await check.run(
                    self._presence.of, self._deadline, self._pause
                )
            except CannotBeAsked as error:
                is_done, waiting = False, str(error)
            self.lost += check.lost
            left += not is_done
        if left:
            progress = {"shards": len(shards), "left": left, "waiting": waiting}
            await server.call("HSET", keyspace.VERIFYING, "progress", json.dumps(progress))
            return
        await server.call("FCALL", "kvcm_doubt_end", 1, keyspace.GENERATION, doubt)
        await server.call("DEL", keyspace.VERIFYING)
        log.info("the index is checked", shards=len(shards), lost=self.lost)
