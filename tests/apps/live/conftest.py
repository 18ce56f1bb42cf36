from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pytest
import redis
from django.contrib.auth import get_user_model

from apps.live.overview import overview
from kvcm_platform.index import heartbeat
from kvcm_platform.index.facts import FactsBuffer
from tests.support.valkey import ValkeyServer

Happen = Callable[..., None]


@pytest.fixture
def server(empty_valkey: ValkeyServer, settings) -> Iterator[redis.Redis]:
    """The platform's Redis with nothing in it, also used by the channel layer."""
    settings.KVCM_REDIS_URL = empty_valkey.url
    layer = {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [{"address": empty_valkey.url}]},
    }
    settings.CHANNEL_LAYERS = {"default": layer}
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
