from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Any

import pytest
import pytest_asyncio
import redis
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import Client

from apps.live.feed import running_feed
from apps.live.overview import overview
from apps.live.snapshots import stop_snapshot_feeds
from kvcm_platform.asgi import application
from kvcm_platform.index import heartbeat
from kvcm_platform.index.facts import FactsBuffer
from kvcm_platform.settings.env import Env
from kvcm_platform.settings.parts.queues import channel_layers
from tests.support.valkey import ValkeyServer
from tests.support.websocket import WebsocketCommunicator

Connect = Callable[..., Awaitable[WebsocketCommunicator]]
Happen = Callable[..., None]


@pytest.fixture
def server(empty_valkey: ValkeyServer, settings, tmp_path) -> Iterator[redis.Redis]:
    """The platform's Redis with nothing in it, also used by the channel layer."""
    settings.KVCM_REDIS_URL = empty_valkey.url
    settings.CHANNEL_LAYERS = channel_layers(
        Env({"KVCM_DATA_DIR": str(tmp_path), "KVCM_REDIS_URL": empty_valkey.url})
    )
    overview.cache_clear()
    client = empty_valkey.client()
    for role in ("web", "control", "metadata", "worker", "beat"):
        heartbeat.beat(client, role, "here")
    yield client
    client.close()
    overview.cache_clear()


@pytest.fixture
def happen(server: redis.Redis) -> Happen:
    """Make a metadata process report: so many blocks asked for and found."""

    def report(requested: int, hit: int, instance: str = "model-a") -> None:
        buffer = FactsBuffer("here:1")
        buffer.rpc("GetCacheLocation", 0.0001, is_error=False)
        buffer.add(instance, requests=1, requested_blocks=requested, hit_blocks=hit)
        pipeline = server.pipeline(transaction=False)
        for command in buffer.take():
            pipeline.execute_command(*command)
        pipeline.execute()

    return report


@pytest.fixture
def account(transactional_db) -> Callable[..., object]:
    def make(username: str = "olga", role: str = "viewer", groups: Collection[str] | None = None) -> object:
        user = get_user_model()(username=username, role=role, groups=groups)
        user.set_password("correct horse battery")
        user.save()
        return user

    return make


def cookie_of(user: Any) -> str:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies[django_settings.SESSION_COOKIE_NAME].value


@pytest_asyncio.fixture
async def connect(server, account) -> AsyncIterator[Connect]:
    opened: list[WebsocketCommunicator] = []

    async def open_socket(
        user: Any = None, query: str = "", origin: str = "http://localhost"
    ) -> WebsocketCommunicator:
        headers = [(b"host", b"localhost")]
        if origin:
            headers.append((b"origin", origin.encode()))
        if user is not None:
            session = await sync_to_async(cookie_of)(user)
            headers.append((b"cookie", f"{django_settings.SESSION_COOKIE_NAME}={session}".encode()))
        socket = WebsocketCommunicator(application, f"/ws/live/{query}", headers=headers)
        await socket.connect()
        opened.append(socket)
        return socket

    yield open_socket
    for socket in opened:
        if socket.is_open:
            await socket.disconnect()
    await running_feed().stop()
    await stop_snapshot_feeds()
