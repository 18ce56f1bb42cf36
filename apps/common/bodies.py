"""Refuses bodies that are too large before they are there: Django keeps all of one before it looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from apps.common.api.errors import body
from apps.common.middleware import most_body_bytes
from kvcm_platform.core.errors import CODES, Code

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class BodyLimit:
    """ASGI: HTTP requests whose body is, or becomes, larger than `most_body_bytes` end here."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        limit = most_body_bytes(scope["path"])
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        if not stated.isdigit() or int(stated) > limit:
            await _refuse(send, limit)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            # One that states no length: to the application it looks as if its sender had gone.
            return {"type": "http.disconnect"} if received > limit else message

        await self._application(scope, counted, send)


async def _refuse(send: Send, limit: int) -> None:
    content = orjson.dumps(body(Code.TOO_LARGE, f"a request may have {limit >> 20} MiB"))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": CODES[Code.TOO_LARGE].rest, "headers": headers})
    await send({"type": "http.response.body", "body": content})
