"""The index in this process: opened, looked after and closed (KVCM_INDEX_BACKEND local or rocksdb).

What control's tasks do for an index in Redis is done here: expired sessions, trims, deletions,
removed instances, reclaim. Redis is told the figures.
"""

from __future__ import annotations

import asyncio
import time

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.duties import run
from kvcm_platform.duties.reclaim import reclaim_round
from kvcm_platform.duties.run import duties_run
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.embedded.memory import MemoryStore
from kvcm_platform.index.embedded.rocks import RocksStore
from kvcm_platform.index.local.connection import LocalConnection
from kvcm_platform.index.local.index import LocalIndex
from kvcm_platform.index.local.server import LocalServer
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.index.shards import shards_of
from kvcm_platform.settings.env import Env

from .background import every

log = structlog.get_logger(__name__)

DUTIES_SECONDS = 0.5
RECLAIM_SECONDS = 0.25
"""How often the marks are looked at."""
RECLAIM_ROUND_SECONDS = 5.0
LIMITS_SECONDS = 0.1
SHOW_SECONDS = 0.5
LOOK_SECONDS = 0.5
FORGET_SECONDS = 60.0
DELETE_BATCH = 1024
"""Deletions that wait for one snapshot together: 1024 hold the loop for up to 40 ms, 2048 for 150."""


class LocalBackend:
    def __init__(self, env: Env, redis: Connection, mirror: RegistryMirror) -> None:
        """Opens the store. Raises DomainError when another process has it, OSError."""
        self._memory: MemoryStore | None = None
        if env["KVCM_INDEX_BACKEND"] == "local":
            self._memory = MemoryStore(env.snapshot_file)
            self._memory.load()
        self._store = self._memory or RocksStore(env.rocksdb_folder)
        self._batch = run.DELETE_BATCH if self._memory is None else DELETE_BATCH
        self._mirror = mirror
        self._quarantine_ms = env["KVCM_REUSE_QUARANTINE_S"] * 1000
        self._reasons_kept_ms = env["KVCM_EVICTIONS_KEPT_S"] * 1000
        self.index = LocalIndex(LocalConnection(LocalServer(self._store), redis), mirror, env.node_id)
        self._gone: list[InstanceEntry] = []
        self._forgot_at = 0.0

    async def run(self) -> None:
        """Runs all loops until cancelled. Raises DomainError when only a new process can go on."""
        if self._memory is not None:
            self._memory.start()
        loops = [
            asyncio.create_task(every(LIMITS_SECONDS, "limits", self._follow_limits)),
            asyncio.create_task(every(DUTIES_SECONDS, "duties of the index", self.duties)),
            asyncio.create_task(every(RECLAIM_SECONDS, "reclaim", self.reclaim)),
            asyncio.create_task(every(SHOW_SECONDS, "figures of the index", self.index.residents.show)),
            asyncio.create_task(every(LOOK_SECONDS, "store", self._look_after_store)),
        ]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _look_after_store(self) -> None:
        """Raises DomainError when the store is lost to this process, OSError while it cannot be written."""
        if self._store.is_lost:
            raise DomainError(
                Code.IO_ERROR, "the index cannot be opened anew: the process ends, a new one may do better"
            )
        self._store.recover()

    async def _follow_limits(self) -> None:
        self.index.follow_limits()

    async def duties(self) -> None:
        """One round. Without Redis, instances known to be removed stay so, and no other is."""
        residents = self.index.residents
        try:
            self._gone = await residents.removed(self._mirror.current)
        except RedisError:
            log.debug("who was removed cannot be asked now")
        await duties_run(
            self._session(),
            batch=self._batch,
            quarantine_ms=self._quarantine_ms,
            reasons_kept_ms=self._reasons_kept_ms,
        )
        await self._forget_reasons()
        for entry in self._gone:
            if residents.is_over(entry):
                await residents.forget(entry)

    def _session(self) -> IndexSession:
        registry = self._mirror.current
        numbers = {entry.number for entry in self.index.residents} - {entry.number for entry in self._gone}
        away = frozenset(e.number for e in registry.instances.values() if e.number not in numbers)
        return IndexSession(self.index, registry, tuple(self._gone), away)

    async def reclaim(self) -> None:
        """One round. Without Redis nothing can be put on record, so nothing goes."""
        await self.index.pusher.flush()
        await reclaim_round(self._session(), RECLAIM_ROUND_SECONDS, is_home=True)

    async def _forget_reasons(self) -> None:
        """In Redis; here the duties see to it."""
        now = time.monotonic()
        if now - self._forgot_at < FORGET_SECONDS:
            return
        self._forgot_at = now
        shards = [shard for entry in self.index.residents for shard in shards_of(entry)]
        try:
            await self.index.residents.gone.forget_old(shards, self._reasons_kept_ms)
        except RedisError:
            log.debug("old reasons cannot be dropped now")

    async def close(self) -> None:
        """The last figures, and the store. Raises OSError."""
        try:
            await self.index.residents.show()
        except (RedisError, OSError) as error:
            log.warning("the last figures did not reach Redis", reason=str(error))
        await self._store.close()
