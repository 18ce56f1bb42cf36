"""The index on one server over TCP, TLS or a unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.exceptions import RedisError

from .address import Address, HostPort
from .connection import Connection
from .life import Master
from .link import CONNECT_SECONDS, Link, load_functions
from .wire import CALL_SECONDS, OUTAGE_SECONDS, IndexUnavailable, StaleGeneration, Wire, raised


class SingleConnection(Connection):
    """A reconnecting, pipelining connection."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address
        self._wire: Wire | None = None
        self._connecting: asyncio.Task[None] | None = None

    async def _host(self) -> HostPort | None:
        """Which server to connect to; None = the unix socket."""
        return self._address.hosts[0] if self._address.hosts else None

    async def learn_clock(self) -> None:
        wire = await self._ready(OUTAGE_SECONDS)
        link = Link(self._address, None)
        await link.learn_clock(wire)
        self._clock_offset_ms = link.clock_offset_ms

    async def connect(self) -> None:
        await self._ready(CONNECT_SECONDS + CALL_SECONDS)

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._wire is not None:
            self._wire.close()

    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        wire = self._wire
        if wire is None or not wire.is_usable:
            wire = await self._ready(OUTAGE_SECONDS)
        reply = await wire.answer(wire.send(command, timeout), timeout)
        if isinstance(reply, hiredis.ReplyError):
            return await self._failed(wire, command, reply)
        return reply

    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS, at: str = ""
    ) -> list[Any]:
        if not commands:
            return []
        wire = self._wire
        if wire is None or not wire.is_usable:
            wire = await self._ready(OUTAGE_SECONDS)
        waiters = [wire.send(command, timeout) for command in commands]
        replies = [await wire.answer(waiter, timeout) for waiter in waiters]
        return [
            await self._failed(wire, command, reply) if isinstance(reply, hiredis.ReplyError) else reply
            for command, reply in zip(commands, replies, strict=True)
        ]

    async def _failed(
        self, wire: Wire, command: tuple[Any, ...], reply: Any, *, is_again: bool = False
    ) -> Any:
        """What an error reply comes to: an exception, or the answer of a second attempt."""
        text = str(reply)
        if text.startswith("OLDGEN"):
            self.generation = int(text.split()[1])
            raise StaleGeneration("the server's generation moved on")
        if text.startswith("ERR Function not found") and not is_again:
            await load_functions(wire)
            reply = await wire.answer(wire.send(command))
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            return await self._failed(wire, command, reply, is_again=True)
        raise raised(reply)

    async def _ready(self, patience: float) -> Wire:
        wire = self._wire
        if wire is not None and not wire.is_lost and not wire.is_usable:
            await wire.heard(OUTAGE_SECONDS)
            if not wire.is_lost and not wire.is_usable:
                raise IndexUnavailable("Redis is connected but does not answer")
        if wire is not None and not wire.is_lost:
            return wire
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._connecting)
        except TimeoutError as error:
            raise IndexUnavailable("Redis cannot be reached") from error
        except (OSError, RedisError) as error:
            raise IndexUnavailable(f"Redis cannot be reached: {error}") from error
        if self._wire is None:
            raise IndexUnavailable("the connection to Redis was closed")
        return self._wire

    async def _connect(self) -> None:
        link = Link(self._address, await self._host())
        wire = await link.open()
        try:
            if link.identity is None or not link.identity.is_master:
                raise IndexUnavailable(f"{link.name} is a replica: it takes no writes")

            async def ask(_: str, *command: Any) -> Any:
                return await wire.ask(*command, timeout=CONNECT_SECONDS)

            self.generation = await self.life.begin([Master(link.identity, ())], ask)
        except BaseException:
            wire.abort()
            raise
        self._clock_offset_ms = link.clock_offset_ms
        self._wire = wire
        self.connects += 1
