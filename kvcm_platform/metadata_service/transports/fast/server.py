"""The endpoint's shell over asyncio: sockets, TLS, clocks, and the calls that are being carried out."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping

import structlog

from ...limits import Unfinished
from .conversations import Conversation
from .limits import Limits
from .peer import Peer
from .routes import Route

log = structlog.get_logger(__name__)
TICK_SECONDS = 1.0
TLS_SHUTDOWN_SECONDS = 2.0


class FastServer:
    """Serves routes on one listening socket. `start` once, `stop` once, as grpcio's server."""

    def __init__(
        self,
        routes: Mapping[bytes, Route | Conversation],
        sock: socket.socket,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._routes = routes
        self._socket = sock
        self._limits = limits
        self._tls = tls
        self._peers: set[Peer] = set()
        self._unfinished = Unfinished(limits.max_unfinished_bytes)
        self._is_stopping = False
        self._ticker: asyncio.Task[None] | None = None
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Peer(
                self._routes, self._limits, self._peers, self._unfinished, needs_alpn=self._tls is not None
            ),
            sock=self._socket,
            ssl=self._tls,
            backlog=1024,
            ssl_handshake_timeout=self._limits.preface_seconds if self._tls else None,
            ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS if self._tls else None,
        )
        self._ticker = asyncio.create_task(self._tick())

    async def stop(self, grace: float) -> None:
        """Takes no further connection, sends GOAWAY, waits up to `grace` seconds for the calls in flight."""
        if self._listener is not None:
            self._listener.close()
        for peer in list(self._peers):
            peer.drain()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self._peers and loop.time() < deadline:
            await asyncio.sleep(0.02)
        if self._ticker is not None:
            self._ticker.cancel()
        if self._peers:
            log.warning("calls were cut off", connections=len(self._peers))
        for peer in list(self._peers):
            peer.abort()
        # One turn of the loop, so that the cut connections see their end.
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for peer in list(self._peers):
                try:
                    peer.tick()
                except Exception:
                    # One client's trouble must not stop the clock of all.
                    log.exception("a connection failed")
                    peer.abort()
