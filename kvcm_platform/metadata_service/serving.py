"""What the asyncio processes share: listening sockets, an HTTP server, and waiting for the end."""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from .http_protocol import BoundedHttp
from .tls import ServerTls


def listen(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A listening socket; with `is_shared` several processes may have the port (SO_REUSEPORT)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind((host, port))
    listening.listen(1024)
    return listening


class HttpServer(uvicorn.Server):
    """Serves an application beside gRPC. Signals are the process's business, not this server's."""

    def __init__(
        self, app: ASGIApp, grace_seconds: float, max_header_bytes: int, tls: ServerTls | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(BoundedHttp, max_header_bytes=max_header_bytes),  # type: ignore[arg-type]
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # an address that a header claims would pass for the peer's
                lifespan="off",
                timeout_graceful_shutdown=round(grace_seconds),
                **(tls.http() if tls else {}),
            )
        )

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()


async def until(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Waits for the request to stop, or for a task that ended although none should."""
    waiter = asyncio.create_task(stop.wait())
    await asyncio.wait([waiter, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
