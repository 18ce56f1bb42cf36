"""The endpoint in a thread of the test, with handlers that do what none of MetaService does."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from kvcm_platform.metadata_service.access import Caller
from kvcm_platform.metadata_service.process import listen
from kvcm_platform.metadata_service.transports.fast.limits import Limits
from kvcm_platform.metadata_service.transports.fast.server import FastServer

PATH = "/test.Echo/"
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


class Served:
    """A running endpoint: `Call` echoes, `Slow` takes the seconds it is sent, `Large` makes so many bytes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, tls: ssl.SSLContext | None) -> None:
        self.loop = loop
        self.callers: list[Caller] = []
        self.begun = 0
        self.cancelled = 0
        self.finished = 0
        self.largest_backlog = 0
        sock = listen("127.0.0.1", 0)
        self.port: int = sock.getsockname()[1]
        routes = {f"{PATH}{name}".encode(): route for name, route in self._routes().items()}
        self.server = FastServer(routes, sock, limits, tls)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _routes(self) -> dict[str, Any]:
        async def echo(message: bytes, caller: Caller, remaining: float | None) -> bytes:
            self.callers.append(caller)
            return message

        async def slow(message: bytes, caller: Caller, remaining: float | None) -> bytes:
            self.begun += 1
            try:
                await asyncio.sleep(float(message))
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            self.finished += 1
            return message

        async def large(message: bytes, caller: Caller, remaining: float | None) -> bytes:
            return bytes(int(message))

        async def failing(message: bytes, caller: Caller, remaining: float | None) -> bytes:
            raise ValueError("not foreseen")

        return {"Call": echo, "Slow": slow, "Large": large, "Failing": failing}

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)


@contextmanager
def served(kind: str = "uvloop", tls: ssl.SSLContext | None = None, **limits: Any) -> Iterator[Served]:
    loop = LOOPS[kind]()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    endpoint = Served(loop, Limits(**limits), tls)
    try:
        endpoint.run(endpoint.server.start())
        yield endpoint
        endpoint.run(endpoint.server.stop(0.5))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(40)
        loop.close()
