"""How often the runs of a shard were used lately, for groups that give back what is used least."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kvcm_platform.core.reclaim.order import heat_level

from . import keyspace
from .shards import ShardRef

if TYPE_CHECKING:
    from .redis_index import RedisIndex

HALF_LIFE_MS = 600_000
EPOCH = 256
"""As in lua/3_heat.lua."""
MOST_RUNS = 1 << 20
"""Runs of a shard whose uses are kept; of more those that were used least are forgotten."""
PAGE = 1024


async def levels(index: RedisIndex, shard: ShardRef) -> dict[bytes, int]:
    """Run -> its level, of those that have one (core.reclaim.order.heat_level). Raises redis.RedisError."""
    halves = index.now_ms() / HALF_LIFE_MS
    epoch = math.floor(halves / EPOCH)
    known = await index.connection.call("HGET", shard.base, "uses")
    if known is None or int(known) != epoch:
        return {}
    weight, name, found = 2.0 ** (halves - epoch * EPOCH), keyspace.uses(shard.base), dict[bytes, int]()
    at = 0
    while True:
        flat = await index.connection.call("ZRANGE", name, at, at + PAGE - 1, "WITHSCORES")
        for run, score in zip(flat[::2], flat[1::2], strict=True):
            level = heat_level(float(score) / weight)
            if level:
                found[run] = level
        at += PAGE
        if len(flat) < 2 * PAGE:
            return found
