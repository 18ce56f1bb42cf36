"""One connected client: from asyncio to the frame machine, from its calls to the handlers, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import structlog

from ...access import Caller
from ...limits import Unfinished
from .connection import Connection
from .conversations import Conversation
from .events import Call, Event
from .limits import Limits
from .messages import Refused, Status, inflated
from .routes import Route, Unary, refusal_of

log = structlog.get_logger(__name__)
WRITE_HIGH_BYTES = 1 << 20
WRITE_LOW_BYTES = 256 << 10
LINGER_SECONDS = 1.0
"""How long a connection that we have ended waits for the peer to end its half."""
INFLATE_ON_LOOP_BYTES = 4096
"""gzip makes at most about a thousand bytes of one: from here on a thread inflates."""
DEADLINE_TEXT = "the deadline has passed"


class Peer(asyncio.Protocol):
    """`peers` holds every connected one; a peer adds and removes itself."""

    def __init__(
        self,
        routes: Mapping[bytes, Route | Conversation],
        limits: Limits,
        peers: set[Peer],
        unfinished: Unfinished,
        *,
        needs_alpn: bool,
    ) -> None:
        self._limits = limits
        self._peers = peers
        self._needs_alpn = needs_alpn
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._connection = Connection(routes, limits, self._time(), unfinished)
        self._transport: asyncio.Transport | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._caller = Caller("")
        self._credentials = ("", "")
        self._is_flush_due = False
        self._paused_at: float | None = None
        self._ended_at: float | None = None

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._peers) >= self._limits.max_connections:
            log.warning("a connection too many was closed", most=self._limits.max_connections)
            self._transport.abort()
            return
        if self._needs_alpn:
            tls = transport.get_extra_info("ssl_object")
            if tls is None or tls.selected_alpn_protocol() != "h2":
                self._transport.abort()
                return
        self._peers.add(self)
        name = transport.get_extra_info("peername")
        self._caller = Caller(str(name[0]) if isinstance(name, tuple) else "")
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._handle(self._connection.receive(data, self._time()))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._peers.discard(self)
        for stream_id in list(self._tasks):
            self._cancel(stream_id)
        self._connection.forget()

    def pause_writing(self) -> None:
        self._paused_at = self._time()
        self._connection.pause()
        if self._transport is not None:
            # A peer that does not read is not read either, so that nothing piles up for it.
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused_at = None
        self._connection.resume()
        self._flush()
        if self._transport is not None and self._paused_at is None and not self._transport.is_closing():
            self._transport.resume_reading()

    # The server's side.

    def drain(self) -> None:
        self._connection.drain(self._time())
        self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def tick(self) -> None:
        now = self._time()
        self._handle(self._connection.tick(now))
        is_stalled = self._paused_at is not None and now - self._paused_at > self._limits.stall_seconds
        has_lingered = self._ended_at is not None and now - self._ended_at > LINGER_SECONDS
        if is_stalled or has_lingered:
            self.abort()

    # Calls.

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is Call:
                self._begin(event)
            else:
                self._cancel(event.stream_id)
        self._flush()

    def _begin(self, call: Call) -> None:
        route = call.route
        is_timely = call.deadline is None or call.deadline > self._time()
        if type(route) is Unary and is_timely and not call.is_compressed:
            answer = route.at_once(call.message, self._caller_of(call))
            if answer is not None:
                # No task for it; who called this flushes.
                self._connection.answer(call.stream_id, answer)
                return
        self._tasks[call.stream_id] = self._loop.create_task(self._serve(call))

    def _cancel(self, stream_id: int) -> None:
        # Taken out here: a task that has not run yet never reaches its own end.
        if task := self._tasks.pop(stream_id, None):
            task.cancel()

    async def _serve(self, call: Call) -> None:
        stream_id = call.stream_id
        timer = None
        try:
            remaining = None
            if call.deadline is not None:
                remaining = call.deadline - self._time()
                if remaining <= 0:
                    raise Refused(Status.DEADLINE_EXCEEDED, DEADLINE_TEXT)
                timer = self._loop.call_later(remaining, self._expire, stream_id)
            message = call.message
            if call.is_compressed:
                message = await self._inflated(message)
            answer = await call.route(message, self._caller_of(call), remaining)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            self._refuse(stream_id, error)
        else:
            self._connection.answer(stream_id, answer)
        finally:
            if timer is not None:
                timer.cancel()
            self._tasks.pop(stream_id, None)
        self._flush_soon()

    def _caller_of(self, call: Call) -> Caller:
        if call.credentials != self._credentials:
            self._credentials = call.credentials
            self._caller = Caller(self._caller.address, *call.credentials)
        return self._caller

    async def _inflated(self, message: bytes) -> bytes:
        most = self._limits.max_message_bytes
        if len(message) <= INFLATE_ON_LOOP_BYTES:
            return inflated(message, most)
        return await asyncio.to_thread(inflated, message, most)

    def _expire(self, stream_id: int) -> None:
        self._connection.refuse(stream_id, Status.DEADLINE_EXCEEDED, DEADLINE_TEXT)
        self._cancel(stream_id)
        self._flush()

    def _refuse(self, stream_id: int, error: BaseException) -> None:
        refusal = refusal_of(error)
        if refusal is None:
            log.error("a handler failed", exc_info=error)
            refusal = Refused(Status.UNKNOWN, f"Unexpected {type(error)}: {error}")
        self._connection.refuse(stream_id, refusal.status, refusal.message)

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Writes what the machine has, in as few writes as there are slices; ends when it is finished."""
        self._is_flush_due = False
        transport = self._transport
        connection = self._connection
        if transport is None or self._ended_at is not None or transport.is_closing():
            return
        while data := connection.data_to_send():
            transport.write(data)
            if self._paused_at is not None:
                return
        if released := connection.released():
            for call in released:
                self._begin(call)
            self._flush_soon()
        if connection.is_finished:
            self._end(transport)

    def _end(self, transport: asyncio.Transport) -> None:
        """Ends our half and waits for the peer's: closing at once could reset what it has not read yet."""
        self._ended_at = self._time()
        if fault := self._connection.fault:
            log.info(
                "a client was sent away",
                address=self._caller.address,
                error=fault.code.name,
                reason=fault.reason,
            )
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()
