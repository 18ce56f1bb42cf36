"""Refuses bodies that are too large before they are there: Django keeps all of one before it looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
from django.conf import settings

from apps.common.api.errors import body
from apps.common.middleware import most_body_bytes
from kvcm_platform.core.errors import CODES, Code

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Refusal = tuple[int, dict[str, Any]]
Judge = Callable[[Message], Awaitable[Refusal | None]]

_COPIES = 2
"""A file is kept while it comes, and then once more where it belongs."""
_LEFT_BYTES = 256 << 20
"""Of the disk that database, index and files share, whatever comes."""


class BodyLimit:
    """ASGI: HTTP requests whose body is, or becomes, larger than `most_body_bytes` end here.

    Beyond what any request may have, `judge` says first, of the scope, whether this sender may (None), and
    the disk has to have room for it.
    """

    def __init__(self, application: Application, judge: Judge) -> None:
        self._application = application
        self._judge = judge
        self._coming_bytes = 0
        """What is stated of large bodies that are being received."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        limit = most_body_bytes(scope["path"])
        text = dict(scope["headers"]).get(b"content-length", b"0")
        if not text.isdigit() or int(text) > limit:
            await _refuse(send, _refusal(Code.TOO_LARGE, f"a request may have {limit >> 20} MiB"))
            return
        stated = int(text)
        is_large = stated > settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        refusal = await self._refusal_of(scope, stated) if is_large else None
        if refusal is not None:
            await _refuse(send, refusal)
            return
        self._coming_bytes += stated if is_large else 0
        try:
            await self._application(scope, self._counted(scope, receive, limit, is_large), send)
        finally:
            self._coming_bytes -= stated if is_large else 0

    def _counted(self, scope: Message, receive: Receive, limit: int, is_judged: bool) -> Receive:
        received = 0

        async def counted() -> Message:
            nonlocal received, is_judged
            message = await receive()
            received += len(message.get("body", b""))
            is_over = received > limit
            if not is_over and not is_judged and received > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                is_judged = True
                is_over = await self._refusal_of(scope, 0) is not None
            # One that states no length: to the application it looks as if its sender had gone.
            return {"type": "http.disconnect"} if is_over else message

        return counted

    async def _refusal_of(self, scope: Message, size: int) -> Refusal | None:
        refusal = await self._judge(scope)
        if refusal is not None:
            return refusal
        free = shutil.disk_usage(settings.FILE_UPLOAD_TEMP_DIR).free - _LEFT_BYTES
        if free < _COPIES * (self._coming_bytes + size):
            return _refusal(Code.CAPACITY, "the disk has no room for it")
        return None


def _refusal(code: Code, message: str) -> Refusal:
    return CODES[code].rest, body(code, message)


async def _refuse(send: Send, refusal: Refusal) -> None:
    status, answer = refusal
    content = orjson.dumps(answer)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
