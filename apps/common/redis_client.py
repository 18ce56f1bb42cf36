"""The process's connection to the index, made on first use and shared by its threads."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings

from kvcm_platform.index import blocking

_CONNECT_SECONDS = 0.5
_ANSWER_SECONDS = 2.0


def index_client() -> redis.Redis:
    """A thread-safe client of the index that gives up quickly: an operator's page must not hang."""
    return _client(settings.KVCM_REDIS_URL)


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return blocking.client(
        url, connect_seconds=_CONNECT_SECONDS, answer_seconds=_ANSWER_SECONDS, health_check_interval=30
    )
