"""A WebSocket to an ASGI application without a server (channels.testing would bring Twisted along)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from asgiref.testing import ApplicationCommunicator


class WebsocketCommunicator(ApplicationCommunicator):
    """One client. `is_open` says whether the application accepted it."""

    def __init__(self, application: Any, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        path, _, query = path.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        }
        super().__init__(application, scope)
        self.is_open = False

    async def connect(self) -> None:
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(timeout=20)
        self.is_open = answer["type"] == "websocket.accept"

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_json(self, content: Any) -> None:
        await self.send_text(json.dumps(content))

    async def receive_json(self, timeout: float = 20) -> Any:
        message = await self.receive_output(timeout)
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=20)


async def receive_until(
    socket: WebsocketCommunicator, wanted: Callable[[dict], bool], seconds: float
) -> dict:
    async with asyncio.timeout(seconds):
        while True:
            message = await socket.receive_json(timeout=seconds)
            if wanted(message):
                return message
