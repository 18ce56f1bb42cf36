"""A metadata process's copy of the registry, kept equal to Redis."""

from __future__ import annotations

import asyncio

from redis.exceptions import RedisError

from kvcm_platform.core.registry import InstanceEntry, Registry

from . import keyspace, registry
from .connection import Connection
from .placed import Places

POLL_SECONDS = 0.1
LOG_BATCH = 200


class RegistryMirror:
    """`core.ports.RegistrySource`. `refresh` applies what changed; a lost log position reloads all."""

    def __init__(self, connection: Connection, own_url: str = "") -> None:
        """`own_url`: the platform's Redis, which groups may name as well as any other."""
        self._connection = connection
        self._own_url = own_url
        self._position = b"0-0"
        self._connects = -1
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        """The refresh that has not begun to read."""
        self.current = Registry()
        self.places = Places()

    async def instance(self, instance_id: str) -> InstanceEntry | None:
        """Reads the registry before it says that an instance does not exist."""
        known = self.current.instances.get(instance_id)
        if known is None and instance_id:
            await self.refresh()
            known = self.current.instances.get(instance_id)
        return known

    async def refresh(self) -> None:
        """Afterwards the copy has what was published before the call. Raises IndexUnavailable.

        Who calls while a refresh runs waits for the next one, which all of them share: engines start by the
        thousand, and each asks for an instance that nobody knows yet.
        """
        if self._next is None or self._next.done():
            self._next = asyncio.ensure_future(self._refresh())
            self._next.add_done_callback(_seen)
        await asyncio.shield(self._next)

    async def _refresh(self) -> None:
        async with self._lock:
            self._next = None
            if self._connects != self._connection.connects:
                await self._reload()
            while await self._apply_log():
                pass

    async def run(self) -> None:
        """Follows the registry until cancelled; an outage is waited out."""
        while True:
            try:
                await self.refresh()
            except RedisError:
                await asyncio.sleep(POLL_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def _reload(self) -> None:
        connects = self._connection.connects
        newest = await self._connection.call("XREVRANGE", keyspace.REGISTRY_LOG, "+", "-", "COUNT", 1)
        fields = await self._connection.call("HGETALL", keyspace.REGISTRY)
        await self._learn_places()
        self.current = registry.assemble(dict(zip(fields[::2], fields[1::2], strict=True)))
        self._position = newest[0][0] if newest else b"0-0"
        self._connects = max(connects, self._connects)

    async def _apply_log(self) -> bool:
        entries = await self._connection.call(
            "XRANGE", keyspace.REGISTRY_LOG, b"(" + self._position, "+", "COUNT", LOG_BATCH
        )
        if not entries:
            return False
        if len(entries) == LOG_BATCH:
            # So far behind that the log may have been trimmed in between.
            await self._reload()
            return False
        changed = list(dict.fromkeys(dict(zip(f[::2], f[1::2], strict=True))[b"f"] for _, f in entries))
        values = await self._connection.call("HMGET", keyspace.REGISTRY, *changed)
        await self._learn_places()
        for field, value in zip(changed, values, strict=True):
            self.current = registry.apply(self.current, field, value)
        self._position = entries[-1][0]
        return True

    async def _learn_places(self) -> None:
        """Before an entry is known here, so is the server that it lies on."""
        flat = await self._connection.call("HGETALL", keyspace.PLACED)
        self.places = Places.of(dict(zip(flat[::2], flat[1::2], strict=True)), self._own_url)


def _seen(task: asyncio.Task[None]) -> None:
    """A failure that everybody has stopped waiting for must not be reported."""
    if not task.cancelled():
        task.exception()
