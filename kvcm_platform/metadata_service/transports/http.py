"""The compatible HTTP form of MetaService (WIRE.md 1.3): POST, JSON in and out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kvcm_platform.core.errors import Code, DomainError

from .. import json_form
from ..access import Caller
from ..control_link import INTERNAL_KEY
from ..limits import DoorLimits, Unfinished
from ..meta_handlers import MetaHandlers
from ..rpc import Rpc

LARGE_BODY = 64 * 1024
"""JSON from this size on is parsed and printed off the event loop."""


def error_response(error: DomainError) -> Response:
    """Answers outside the protocol's 200: the status alone says what is wrong; the body says why."""
    body = json_form.plain({"code": error.code.value, "message": error.message})
    headers = {"WWW-Authenticate": "Bearer"} if error.forms.http == 401 else None
    return Response(body, status_code=error.forms.http, media_type="application/json", headers=headers)


class Bodies:
    """Reads bodies of requests; what is in work of them at a time has a bound over all connections."""

    def __init__(self, limits: DoorLimits) -> None:
        self._most = limits.message_bytes
        self._unfinished = Unfinished(limits.unfinished_bytes)

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """A body, which counts until the end of the block.

        Raises DomainError where it, or all together, are too large: the rest is not read. Raises
        ClientDisconnect.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                self._unfinished.size += len(part)
                if size > self._most:
                    reason = f"the body is larger than {self._most} bytes (KVCM_MAX_MESSAGE_MB)"
                    raise DomainError(Code.TOO_LARGE, reason)
                if self._unfinished.is_full:
                    raise DomainError(Code.TOO_MANY, self._unfinished.refusal)
                parts.append(part)
            yield b"".join(parts)
        finally:
            self._unfinished.size -= size


async def off_loop(size: int, work: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(work) if size >= LARGE_BODY else work()


def json_endpoint(
    request_class: type[Any],
    response_class: type[Any],
    serve: Callable[[Any, Request], Awaitable[Any]],
    bodies: Bodies,
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint of the JSON form. `serve` answers with a message or its bytes, or raises DomainError."""

    async def endpoint(request: Request) -> Response:
        try:
            async with bodies.read(request) as body:
                message = await off_loop(len(body), lambda: json_form.parse(request_class, body))
        except DomainError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except json_form.BadJson:
            return Response(b"{}", status_code=400)
        try:
            answer = await serve(message, request)
        except DomainError as error:
            return error_response(error)
        if isinstance(answer, bytes):
            text = await off_loop(
                len(answer), lambda: json_form.print_message(response_class.FromString(answer))
            )
        else:
            text = json_form.print_message(answer)
        return Response(text, media_type="application/json")

    return endpoint


def caller_of(request: Request) -> Caller:
    address = request.client.host if request.client else ""
    headers = request.headers
    return Caller(address, headers.get("authorization", ""), headers.get(INTERNAL_KEY, ""))


def build_app(handlers: MetaHandlers, limits: DoorLimits) -> Starlette:
    bodies = Bodies(limits)

    def route(rpc: Rpc) -> Route:
        async def serve(message: Any, request: Request) -> bytes:
            return await handlers.call(rpc, message, caller_of(request))

        endpoint = json_endpoint(rpc.request, rpc.response, serve, bodies)
        return Route(rpc.http_path, endpoint, methods=["POST"])

    return Starlette(routes=[route(rpc) for rpcs in handlers.services.values() for rpc in rpcs])
