"""The channel layer of live sockets over a real Valkey."""

from __future__ import annotations

import asyncio

import pytest

from apps.live.layer import LiveLayer
from tests.support.valkey import valkey_server


@pytest.fixture(scope="module")
def address():
    with valkey_server() as server:
        yield server.url


async def test_whoever_waits_for_a_message_can_be_stopped_at_any_moment(address, monkeypatch):
    """Of these moments some lie where the client drops a cancellation."""
    monkeypatch.setattr(LiveLayer, "brpop_timeout", 0.05)
    for moment in range(60):
        layer = LiveLayer(hosts=[{"address": address, "socket_timeout": 10}])
        waiting = asyncio.ensure_future(layer.receive(await layer.new_channel()))
        for _ in range(moment):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=20)
        assert done and waiting.cancelled(), moment
        await layer.close_pools()


async def test_a_message_reaches_whoever_waits_next(address):
    layer = LiveLayer(hosts=[{"address": address, "socket_timeout": 10}])
    channel = await layer.new_channel()
    await layer.send(channel, {"type": "hello"})
    assert await asyncio.wait_for(layer.receive(channel), 20) == {"type": "hello"}
    await layer.close_pools()
