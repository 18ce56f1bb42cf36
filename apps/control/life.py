"""Stamps the index each second and keeps the stamps in the database (kvcm_platform.index.life).

After a restart of everything the database alone remembers how far the index had come; so it is
control that says whether an index that comes back may be trusted.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable
from concurrent.futures import Executor

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from redis.exceptions import RedisError

from apps.common.selectors import index_stamps
from apps.common.services import index_stamps_store
from apps.control.leader import Leader
from kvcm_platform.index import keyspace
from kvcm_platform.index.address import BadAddress
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.placed import Places

log = structlog.get_logger(__name__)

STAMP_SECONDS = 1.0
STORE_SECONDS = 3.0
COMPLAIN_SECONDS = 10.0


class LifeKeeper:
    """One task of a control process. Every node stamps; the leader writes the database.

    Beside the platform's own server those of groups that have one are kept alive (index/placed.py).
    """

    def __init__(self, leader: Leader, executor: Executor) -> None:
        self._leader = leader
        self._executor = executor
        self._servers: dict[str, Connection] = {}
        self.has_judged = False
        """From the first time that the index answered: until then it may be undecided (index/life.py)."""
        self._stored_at = 0.0
        self._complained_at = -COMPLAIN_SECONDS

    async def run(self) -> None:
        """Until cancelled; an outage is waited out."""
        try:
            while True:
                await self._attempt(self._follow_own())
                for url in [url for url in self._servers if url]:
                    await self._attempt(self._servers[url].stamp())
                await self._attempt(self._store())
                await asyncio.sleep(STAMP_SECONDS)
        finally:
            for server in self._servers.values():
                await server.close()

    async def _attempt(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (RedisError, BadAddress, DatabaseError, OSError) as error:
            if time.monotonic() - self._complained_at >= COMPLAIN_SECONDS:
                self._complained_at = time.monotonic()
                log.warning("the life of the index cannot be followed", error=str(error))

    async def _follow_own(self) -> None:
        """Stamps the platform's own server, and learns from it which others there are."""
        own = await self._server("")
        await own.stamp()
        self.has_judged = True
        fields = await own.call("HGETALL", keyspace.PLACED)
        placed = dict(zip(fields[::2], fields[1::2], strict=True))
        wanted = set(Places.of(placed, own=settings.KVCM_REDIS_URL).urls.values())
        for url in wanted - self._servers.keys():
            await self._attempt(self._open(url))
        for url in self._servers.keys() - wanted - {""}:
            await self._servers.pop(url).close()

    async def _open(self, url: str) -> None:
        await self._server(url)

    async def _server(self, url: str) -> Connection:
        """A connection whose first answer is judged by what the database remembers; "" = the own one."""
        if url not in self._servers:
            connection = connection_to(url or settings.KVCM_REDIS_URL)
            loop = asyncio.get_running_loop()
            connection.life.remember(await loop.run_in_executor(self._executor, _recalled, _name(url)))
            connection.life.is_authority = True
            self._servers[url] = connection
        return self._servers[url]

    async def _store(self) -> None:
        if not self._leader.is_leader or time.monotonic() - self._stored_at < STORE_SECONDS:
            return
        stamps = {
            _name(url) + key: at
            for url, server in self._servers.items()
            for key, at in server.life.seen.items()
        }
        await asyncio.get_running_loop().run_in_executor(self._executor, _store, stamps)
        self._stored_at = time.monotonic()


def _name(url: str) -> str:
    """What stands before the keys of a server in the database: URLs hold passwords."""
    return f"{hashlib.sha256(url.encode()).hexdigest()[:16]}|" if url else ""


def _recalled(name: str) -> dict[str, int]:
    close_old_connections()
    try:
        stamps = index_stamps()
    finally:
        close_old_connections()
    if not name:
        return {key: at for key, at in stamps.items() if "|" not in key}
    return {key.removeprefix(name): at for key, at in stamps.items() if key.startswith(name)}


def _store(stamps: dict[str, int]) -> None:
    close_old_connections()
    try:
        index_stamps_store(stamps=stamps)
    finally:
        close_old_connections()
