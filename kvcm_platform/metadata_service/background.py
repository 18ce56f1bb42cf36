"""What a metadata process does beside answering calls: pushes, flushes, signs of life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import structlog
from redis.exceptions import RedisError

from kvcm_platform.index import heartbeat, keyspace
from kvcm_platform.index.connection import Connection, each_to_its_end
from kvcm_platform.index.facts import FactsBuffer
from kvcm_platform.index.permits import RedisPermits
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.index.request_log import RequestLog
from kvcm_platform.index.search_cache import SearchCache

from .faults import Faults
from .stand_down import StandDown

log = structlog.get_logger(__name__)

PUSH_SECONDS = 0.05
STREAM_SECONDS = 0.05
FACTS_SECONDS = 0.2
RECENCY_SECONDS = 1.0
HEARTBEAT_SECONDS = 1.0
STAND_DOWN_SECONDS = 0.2
FAULTS_SECONDS = 0.1
REQUESTS_SECONDS = 0.2
SWITCHES_SECONDS = 0.5
COMPLAIN_SECONDS = 10.0


async def every(seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Repeats `work` until cancelled. An outage is waited out and reported now and then, not each time."""
    complained_at = 0.0
    while True:
        try:
            await work()
        except (RedisError, OSError) as error:
            if time.monotonic() - complained_at > COMPLAIN_SECONDS:
                complained_at = time.monotonic()
                what = "Redis" if isinstance(error, RedisError) else "the disk"
                log.warning(f"background work waits for {what}", work=name, reason=str(error))
        await asyncio.sleep(seconds)


class Background:
    def __init__(
        self,
        connection: Connection,
        index: RedisIndex,
        mirror: RegistryMirror,
        search_cache: SearchCache,
        facts: FactsBuffer,
        permits: RedisPermits,
        stand_down: StandDown,
        node_id: str,
        faults: Faults | None,
        requests: RequestLog,
    ) -> None:
        self._connection = connection
        self._index = index
        self._mirror = mirror
        self._search_cache = search_cache
        self._facts = facts
        self._permits = permits
        self._stand_down = stand_down
        self._node_id = node_id
        self._faults = faults
        self._requests = requests

    async def run(self) -> None:
        """Runs all loops until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(every(PUSH_SECONDS, "usage", self._index.pusher.flush))
            tasks.create_task(every(PUSH_SECONDS, "leases", self._index.pools.flush))
            tasks.create_task(every(STREAM_SECONDS, "stream", self._search_cache.refresh_active))
            tasks.create_task(every(FACTS_SECONDS, "facts", self._flush_facts))
            tasks.create_task(every(RECENCY_SECONDS, "recency", self._flush_recency))
            tasks.create_task(every(HEARTBEAT_SECONDS, "heartbeat", self._beat))
            tasks.create_task(every(STAND_DOWN_SECONDS, "stand down", self._follow_stand_down))
            tasks.create_task(every(SWITCHES_SECONDS, "switches", self._follow_switches))
            tasks.create_task(every(REQUESTS_SECONDS, "requests", self._flush_requests))
            if self._faults is not None:
                tasks.create_task(every(FAULTS_SECONDS, "faults", self._faults.refresh))

    async def drain(self) -> None:
        """The last flush of an orderly stop; takes the process off the list of processes.

        An outage that hinders one of these leaves the others done. Raises redis.RedisError.
        """
        await each_to_its_end(
            [
                *(self._index.pusher.flush(), self._index.pools.flush(), self._index.recency.flush()),
                *(self._flush_facts(), self._flush_requests(), self._sign_off()),
            ]
        )

    async def _sign_off(self) -> None:
        field = heartbeat.command("metadata", self._node_id)[2]
        await self._connection.call("HDEL", keyspace.PROCESSES, field)

    async def _flush_recency(self) -> None:
        self._index.recency.count_for(self._mirror.current)
        await self._index.recency.flush()

    async def _flush_facts(self) -> None:
        await self._connection.pipeline(self._facts.take())

    async def _follow_switches(self) -> None:
        await self._requests.refresh(self._connection)

    async def _flush_requests(self) -> None:
        await self._requests.flush(self._connection)

    async def _follow_stand_down(self) -> None:
        self._stand_down.set(await self._connection.call("PTTL", keyspace.demoted(self._node_id)))

    async def _beat(self) -> None:
        await self._connection.learn_clock()
        await self._connection.stamp()
        detail = {
            "search_cache": asdict(self._search_cache.counters),
            "permits": asdict(self._permits.counters),
        }
        await self._connection.call(*heartbeat.command("metadata", self._node_id, detail))
