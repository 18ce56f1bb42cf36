"""Positions in streams of Redis: the ids of their entries, as text."""

from __future__ import annotations

import redis

START = "0-0"
"""Before every entry."""


def newest(client: redis.Redis, stream: str) -> str:
    """Position of the newest entry; START when there is none. Raises redis.RedisError."""
    entries = client.xrevrange(stream, count=1)
    return entries[0][0].decode() if entries else START


def is_before(position: str, other: str) -> bool:
    return _parts(position) < _parts(other)


def _parts(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds), int(number or 0)
