"""What tests of several apps share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pytest
import redis
from rest_framework.test import APIClient

from apps.common.actor import Role
from tests.factories.actors import make_token
from tests.support.valkey import ValkeyServer

Api = Callable[..., APIClient]


@pytest.fixture
def index(empty_valkey: ValkeyServer, settings) -> Iterator[redis.Redis]:
    """The platform's Redis, empty and reachable. Without this fixture it cannot be reached."""
    settings.KVCM_REDIS_URL = empty_valkey.url
    client = empty_valkey.client()
    yield client
    client.close()


@pytest.fixture
def api() -> Api:
    """Makes a REST client that acts with a token of the given role; None = nobody."""

    def make(role: Role | None = Role.OPERATOR, groups: Collection[str] | None = None) -> APIClient:
        client = APIClient()
        if role is not None:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(role, groups)}")
        return client

    return make


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tasks handed to the workers; nothing is sent."""
    names: list[str] = []

    def send_task(name: str, **_: object) -> None:
        names.append(name)

    monkeypatch.setattr("kvcm_platform.celery.app.send_task", send_task)
    return names
