"""Memory of pools for an index in this process, which gives it out alone.

What is taken of a segment is on record here, beside the blocks. So no other index may give out the
same memory: Redis notes whose it is before the first range is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from kvcm_platform.core.registry import PoolSegment
from kvcm_platform.index import keyspace
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.pools import Pools

if TYPE_CHECKING:
    from .index import LocalIndex


class HomePools(Pools):
    def __init__(self, index: LocalIndex, redis: Connection, node_id: str) -> None:
        super().__init__(index)
        self._redis = redis
        self._node_id = node_id
        self._claimed: set[int] = set()

    async def claim(self, segment: PoolSegment) -> str:
        if segment.number in self._claimed:
            return ""
        base = keyspace.storage(segment.number)
        try:
            generation = self._redis.generation_of(base)
            is_ours = await self._redis.call("FCALL", "kvcm_pool_home", 1, base, generation, self._node_id)
        except RedisError as error:
            return f"cannot be asked for while Redis is away ({error})"
        if not is_ours:
            return "serves another index"
        self._claimed.add(segment.number)
        return ""
