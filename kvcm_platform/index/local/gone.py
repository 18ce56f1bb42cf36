"""Brings into Redis why blocks left, where pages look for it (index/gone.py); here it is in memory alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvcm_platform.index import keyspace
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.shards import ShardRef

from .changes import GONE_LENGTH
from .keys import Keys

MOST = 256
"""Entries of a shard that are brought together."""


class GoneMirror:
    def __init__(self, keys: Keys, redis: Connection) -> None:
        self._keys = keys
        self._redis = redis
        self._told: dict[str, int] = {}
        """Name of a stream -> number of its last entry that Redis has."""

    async def tell(self, shards: Iterable[ShardRef]) -> None:
        """What came since the last time; after an outage some may be told twice. Raises redis.RedisError."""
        for shard in shards:
            name = keyspace.gone(shard.base)
            entries = self._keys.stream(name).after(self._told.get(name, 0), MOST)
            if not entries:
                continue
            await self._redis.pipeline([_addition(name, fields) for _, fields in entries])
            self._told[name] = entries[-1][0]

    async def forget_old(self, shards: Iterable[ShardRef], kept_ms: int) -> None:
        oldest = max(0, self._redis.now_ms() - kept_ms)
        commands = [("XTRIM", keyspace.gone(shard.base), "MINID", "~", oldest) for shard in shards]
        if commands:
            await self._redis.pipeline(commands)

    async def drop(self, shard: ShardRef) -> None:
        """The shard is no more."""
        name = keyspace.gone(shard.base)
        self._told.pop(name, None)
        await self._redis.call("DEL", name)


def _addition(name: str, fields: Any) -> tuple[Any, ...]:
    pairs = [part for item in fields.items() for part in item]
    return ("XADD", name, "MAXLEN", "~", GONE_LENGTH, "*", *pairs)
