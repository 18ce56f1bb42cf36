"""Removed instances whose data is still being deleted: on record until the last key is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kvcm_platform.core.registry import InstanceEntry, instance_from_dict

from . import keyspace
from .redis_index import RedisIndex
from .sessions import CHUNK
from .shards import ShardRef, shards_of
from .stats import parse_usage
from .trims import Span, scan_keys
from .usage import as_dict, push, push_command

STAY_MS = 30_000
"""An instance stays on the list this long: a process that lags behind may still write for it."""


def leave_command(entry: InstanceEntry) -> tuple[str, ...]:
    """Puts an instance on the list."""
    return ("HSET", keyspace.LEAVING, str(entry.number), json.dumps(asdict(entry)))


def decode(flat: list[bytes] | Mapping[bytes, bytes]) -> list[InstanceEntry]:
    values: Any = flat.values() if isinstance(flat, Mapping) else flat[1::2]
    return [instance_from_dict(json.loads(raw)) for raw in values]


async def clear(index: RedisIndex, entry: InstanceEntry, delay_ms: int, seconds: float) -> bool:
    """Marks what is left of an instance for at most `seconds`; True when its last key is gone.

    `delay_ms` is how long readers that just got a location have, as the group said when the
    duties first met the instance: the group may be removed meanwhile.
    """
    shards, connection = shards_of(entry), index.connection
    await connection.call("HSETNX", keyspace.LEAVING_SINCE, entry.number, f"{index.now_ms()}:{delay_ms}")
    met = await connection.call("HGET", keyspace.LEAVING_SINCE, entry.number)
    since, delay = (int(part) for part in met.split(b":"))
    deadline = time.monotonic() + seconds
    left = 0
    for shard in shards:
        usage = parse_usage(as_dict(await connection.call("HGETALL", shard.base)))
        if any(state != "p" for _, state in usage):
            await _mark(index, entry, shard, delay, deadline)
        hashes = (keyspace.blocks, keyspace.pending, keyspace.sessions, keyspace.tickets)
        left += sum(await connection.pipeline([("HLEN", name(shard.base)) for name in hashes]))
        await push(connection, shard)
    if left or index.now_ms() - since < STAY_MS:
        return False
    for shard in shards:
        await connection.call("DEL", *keyspace.all_of_instance(shard.base))
        # An empty vector with a later sequence takes whatever the group still counts for the shard away.
        ended = {b"gen": b"%d" % connection.generation_of(shard.base), b"seq": b"%d" % (1 << 52)}
        await connection.call(*push_command(shard, ended, {}))
    await connection.call("HDEL", keyspace.LEAVING, entry.number)
    await connection.call("HDEL", keyspace.PLACED, f"i:{entry.number}")
    await connection.call("HDEL", keyspace.LEAVING_SINCE, entry.number)
    return True


async def _mark(
    index: RedisIndex, entry: InstanceEntry, shard: ShardRef, delay_ms: int, deadline: float
) -> None:
    cursor = b"0"
    while time.monotonic() < deadline:
        cursor, keys = await scan_keys(index, shard, cursor)
        for at in range(0, len(keys), CHUNK):
            await index.remove_chunk(entry, shard, Span("all", delay_ms), keys[at : at + CHUNK])
        if cursor == b"0":
            return
