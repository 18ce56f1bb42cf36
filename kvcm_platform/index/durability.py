"""Waits until what was written to a server would survive its crash."""

from __future__ import annotations

import asyncio

from redis.exceptions import RedisError

from . import keyspace
from .cluster import ClusterConnection
from .connection import Connection, IndexUnavailable

DURABLE_MS = 3000
GATHER_SECONDS = 0.005
"""Who asks so soon after another is served by the same wait."""


class Durability:
    """Waits of one run. A server writes its log about once a second, so shards wait for it together."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._next: dict[object, asyncio.Task[None]] = {}
        self._locks: dict[object, asyncio.Lock] = {}

    async def wait(self, base: str) -> None:
        """Returns when everything written before the call, in the tag of this key, is in the server's log.

        Raises IndexUnavailable when that takes too long.
        """
        server: object = self._connection.server_of(base)
        if isinstance(server, ClusterConnection):
            server = base  # each of its masters has a log of its own
        if server not in self._next:
            self._next[server] = asyncio.create_task(self._wait(server, base))
        await asyncio.shield(self._next[server])

    async def _wait(self, server: object, base: str) -> None:
        try:
            async with self._locks.setdefault(server, asyncio.Lock()):
                await asyncio.sleep(GATHER_SECONDS)
                # From here on it is under way, and says nothing to those who come later.
                del self._next[server]
                await wait_durable(self._connection, base)
        finally:
            if self._next.get(server) is asyncio.current_task():
                del self._next[server]


async def wait_durable(connection: Connection, base: str) -> None:
    """WAITAOF covers the writes of the connection that asks, so a write comes first.

    A server without AOF was set up to forget: there is nothing to wait for. Raises IndexUnavailable.
    """
    try:
        _, (local, _) = await connection.pipeline(
            [
                ("HSET", keyspace.durable(base), "at", connection.now_ms()),
                ("WAITAOF", 1, 0, DURABLE_MS),
            ],
            timeout=DURABLE_MS / 1000 + 2,
            at=base,
        )
    except IndexUnavailable:
        raise
    except RedisError as error:
        if "appendonly is disabled" in str(error):
            return
        raise
    if local < 1:
        raise IndexUnavailable("the server's log was not written in time")
