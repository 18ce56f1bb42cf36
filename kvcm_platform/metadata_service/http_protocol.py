"""uvicorn's HTTP/1.1 with a bound on what a request sends besides its body; llhttp itself has none."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LINE_BYTES = 4
"""": " and the end of the line of a header."""


class BoundedHttp(HttpToolsProtocol):
    """Answers 413 to a request line and headers of more than `max_header_bytes`, and closes.

    Trailers and the extensions of chunks count as well: bytes in a row that bring no body.
    """

    def __init__(self, *args: Any, max_header_bytes: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_header_bytes = max_header_bytes
        self._without_body = 0
        self._has_progress = False

    def data_received(self, data: bytes) -> None:
        self._has_progress = False
        super().data_received(data)
        if self._has_progress:
            self._without_body = 0
            return
        self._without_body += len(data)
        if self._without_body > self._max_header_bytes and not self.transport.is_closing():
            body = _refusal(self._max_header_bytes)
            head = (
                f"HTTP/1.1 413 Content Too Large\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._has_progress = True
        size = len(self.url) + sum(len(name) + len(value) + LINE_BYTES for name, value in self.headers)
        if size <= self._max_header_bytes:
            super().on_headers_complete()
            return
        served = self.app
        self.app = self._refuse
        super().on_headers_complete()
        self.app = served

    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_progress = True
        super().on_message_complete()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"connection": "close"}
        answer = Response(_refusal(self._max_header_bytes), 413, headers, media_type="application/json")
        await answer(scope, receive, send)


def _refusal(most: int) -> bytes:
    text = f"the headers are larger than {most} bytes (KVCM_MAX_HEADER_KB)"
    return json.dumps({"code": "request_too_large", "message": text}).encode()
