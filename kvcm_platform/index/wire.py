"""One connection to one Redis server: commands of a loop tick leave in one write, replies come in order."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial
from typing import Any, cast

import hiredis
from redis.exceptions import RedisError

from . import functions
from .address import Address, HostPort

CALL_SECONDS = 2.0
"""A server that does not answer for this long counts as gone: a slow disk may hold its writes up."""
READ_SECONDS = 0.5
"""How long a read waits that a client's answer depends on; the connection stays.

A busy server needs up to 340 ms (eight writers of 2,048 blocks, its log being rewritten, two busy cores).
"""
SILENT_SECONDS = 0.5
"""Commands unanswered for this long: nothing more is sent until the server says something."""
OUTAGE_SECONDS = 0.2
"""A call waits this long for a connection before it is refused (DESIGN 4.1)."""
GRACE_SECONDS = 0.01
WRITE_BUFFER = 1 << 26


class IndexUnavailable(RedisError):
    """The server cannot be reached, or the connection broke during a call.

    In the second case the call may or may not have been carried out.
    """


class Fenced(RedisError):
    """A background duty whose lease was another's meanwhile: it must end, nothing was changed."""


class StaleGeneration(RedisError):
    """The server was restarted or replaced; the generation was read anew, the call may be repeated."""


class Wire(asyncio.Protocol):
    """Replies are matched to waiters in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._waiters: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._spoke: asyncio.Future[None] | None = None
        self._quiet_since = 0.0
        self.is_lost = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        waiters = self._waiters
        while (reply := self._reader.gets()) is not False:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(reply)
        self._quiet_since = max(time.monotonic(), self._quiet_since) if waiters else 0.0
        if self._spoke is not None and not self._spoke.done():
            self._spoke.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        error = IndexUnavailable(f"connection to Redis lost: {exc or 'closed by the server'}")
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()  # a waiter nobody awaits any more must not be reported
        for waiting in (self._spoke, self.lost):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    @property
    def is_usable(self) -> bool:
        """Connected, and not silent for so long that a new command would only wait behind others."""
        if self.is_lost:
            return False
        return not self._quiet_since or time.monotonic() - self._quiet_since < SILENT_SECONDS

    async def heard(self, seconds: float) -> None:
        """Returns when the server says something or the connection ends, at the latest after `seconds`."""
        if self._spoke is None or self._spoke.done():
            self._spoke = self._loop.create_future()
        await asyncio.wait({self._spoke}, timeout=seconds)

    def send(self, command: tuple[Any, ...], timeout: float = CALL_SECONDS) -> asyncio.Future[Any]:
        """With a longer `timeout` than CALL_SECONDS the server may rightly be silent for as long."""
        waiter: asyncio.Future[Any] = self._loop.create_future()
        if self.is_lost or self._transport is None:
            waiter.set_exception(IndexUnavailable("not connected to Redis"))
            return waiter
        if not self._out:
            self._loop.call_soon(self._flush)
        if command[0] == "FCALL":
            command = ("FCALL", functions.name(command[1]), *command[2:])
        self._out.append(hiredis.pack_command(command))
        if not self._waiters or timeout > CALL_SECONDS:
            self._quiet_since = time.monotonic() + (timeout if timeout > CALL_SECONDS else 0.0)
        self._waiters.append(waiter)
        return waiter

    def _flush(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    async def answer(self, waiter: asyncio.Future[Any], timeout: float = CALL_SECONDS) -> Any:
        """The reply, error replies included. Raises IndexUnavailable.

        Replies come in order, so a wait of CALL_SECONDS in vain ends the connection.
        """
        if waiter.done():
            return waiter.result()
        timer = self._loop.call_later(timeout, self._expire, waiter, timeout)
        try:
            return await waiter
        finally:
            timer.cancel()

    def _expire(self, waiter: asyncio.Future[Any], timeout: float, *, is_sure: bool = False) -> None:
        if waiter.done():
            return
        if not is_sure:
            # This process may have been stopped itself: what has arrived meanwhile is read first.
            self._loop.call_later(GRACE_SECONDS, partial(self._expire, waiter, timeout, is_sure=True))
            return
        waiter.set_exception(IndexUnavailable(f"Redis did not answer within {timeout} s"))
        if timeout >= CALL_SECONDS:
            self.abort()

    async def ask(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        """One command outside of the calls. Raises RedisError for an error reply too."""
        reply = await self.answer(self.send(command), timeout)
        if isinstance(reply, hiredis.ReplyError):
            raise RedisError(str(reply))
        return reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def open_wire(address: Address, host: HostPort | None) -> Wire:
    """A new connection to `host`, or to the address's unix socket. Raises OSError."""
    loop = asyncio.get_running_loop()
    if host is None:
        return (await loop.create_unix_connection(Wire, address.path))[1]
    context = address.tls()
    return (await loop.create_connection(Wire, host[0], host[1], ssl=context))[1]


def raised(reply: Any) -> RedisError:
    """What an error reply of a command means."""
    text = str(reply)
    if text.startswith(("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK")):
        return IndexUnavailable(text)
    if text.startswith("FENCED"):
        return Fenced("another process has the lease of the background duties")
    return RedisError(text)
