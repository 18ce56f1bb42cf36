"""The process's connection to the index, made on first use and shared by its threads."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings

from kvcm_platform.index import blocking
from kvcm_platform.index.placed_client import PlacedClient

_CONNECT_SECONDS = 0.5
_ANSWER_SECONDS = 2.0


def index_client() -> redis.Redis:
    """A thread-safe client of the index that gives up quickly: an operator's page must not hang."""
    return _client(settings.KVCM_REDIS_URL)


def blocks_client() -> PlacedClient:
    """The same for what lies with the blocks of groups and instances, on whatever server each has."""
    return _blocks_client(settings.KVCM_REDIS_URL, is_lenient=False)


def figures_client() -> PlacedClient:
    """The same for figures on pages: a group's own server that is away leaves out its own alone."""
    return _blocks_client(settings.KVCM_REDIS_URL, is_lenient=True)


@lru_cache(maxsize=8)
def _blocks_client(url: str, *, is_lenient: bool) -> PlacedClient:
    return PlacedClient(_client(url), url, _client, is_lenient=is_lenient)


@lru_cache(maxsize=64)
def _client(url: str) -> redis.Redis:
    return blocking.client(
        url, connect_seconds=_CONNECT_SECONDS, answer_seconds=_ANSWER_SECONDS, health_check_interval=30
    )
