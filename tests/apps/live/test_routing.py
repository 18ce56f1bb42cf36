"""Addresses of sockets."""

from __future__ import annotations

from channels.routing import URLRouter

from apps.live.routing import websocket_urlpatterns
from tests.support.websocket import WebsocketCommunicator


async def test_an_unknown_address_is_refused_without_noise() -> None:
    socket = WebsocketCommunicator(URLRouter(websocket_urlpatterns), "/ws/nothing/", [])
    await socket.connect()
    assert not socket.is_open
