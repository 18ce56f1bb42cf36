"""The compatible HTTP form of MetaService (WIRE.md 1.3): POST, JSON in and out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kvcm_platform.core.errors import Code, DomainError

from .. import json_form
from ..access import Caller
from ..control_link import INTERNAL_KEY
from ..meta_handlers import MetaHandlers
from ..rpc import Rpc

LARGE_BODY = 64 * 1024
"""JSON from this size on is parsed and printed off the event loop."""


def error_response(error: DomainError) -> Response:
    """Answers outside the protocol's 200: the status alone says what is wrong; the body says why."""
    body = json_form.plain({"code": error.code.value, "message": error.message})
    headers = {"WWW-Authenticate": "Bearer"} if error.forms.http == 401 else None
    return Response(body, status_code=error.forms.http, media_type="application/json", headers=headers)


class BodyTooLarge(Exception):
    """The body passed the limit of a call; what follows of it is not read."""


async def read_body(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLarge
        parts.append(part)
    return b"".join(parts)


async def off_loop(size: int, work: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(work) if size >= LARGE_BODY else work()


def json_endpoint(
    request_class: type[Any],
    response_class: type[Any],
    serve: Callable[[Any, Request], Awaitable[Any]],
    max_body_bytes: int,
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint of the JSON form. `serve` answers with a message or its bytes, or raises DomainError."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await read_body(request, max_body_bytes)
            message = await off_loop(len(body), lambda: json_form.parse(request_class, body))
        except BodyTooLarge:
            reason = f"the body is larger than {max_body_bytes} bytes (KVCM_MAX_MESSAGE_MB)"
            return error_response(DomainError(Code.TOO_LARGE, reason))
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


def build_app(handlers: MetaHandlers, max_body_bytes: int) -> Starlette:
    def route(rpc: Rpc) -> Route:
        async def serve(message: Any, request: Request) -> bytes:
            return await handlers.call(rpc, message, caller_of(request))

        endpoint = json_endpoint(rpc.request, rpc.response, serve, max_body_bytes)
        return Route(rpc.http_path, endpoint, methods=["POST"])

    return Starlette(routes=[route(rpc) for rpcs in handlers.services.values() for rpc in rpcs])
