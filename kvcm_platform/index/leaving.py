"""Removed instances whose data is still being deleted: on record until the last key is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kvcm_platform.core.registry import InstanceEntry, instance_from_dict

from . import codec, keyspace
from .redis_index import CHUNK, RedisIndex
from .stats import parse_usage
from .usage import ShardRef, as_dict, push, push_command

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
    shard = ShardRef(entry.number, 0, entry.group_number)
    base, connection = shard.base, index.connection
    await connection.call("HSETNX", keyspace.LEAVING_SINCE, entry.number, f"{index.now_ms()}:{delay_ms}")
    met = await connection.call("HGET", keyspace.LEAVING_SINCE, entry.number)
    since, delay = (int(part) for part in met.split(b":"))
    usage = parse_usage(as_dict(await connection.call("HGETALL", base)))
    if any(state != "p" for _, state in usage):
        await _mark(index, entry, delay, time.monotonic() + seconds)
    left = await connection.pipeline(
        [("HLEN", keyspace.blocks(base)), ("HLEN", keyspace.pending(base)), ("HLEN", keyspace.sessions(base))]
    )
    await push(connection, shard)
    if any(left) or index.now_ms() - since < STAY_MS:
        return False
    await connection.call("DEL", *keyspace.all_of_instance(base))
    # An empty vector with a later sequence takes whatever the group still counts for the shard away.
    ended = {b"gen": b"%d" % index.connection.generation, b"seq": b"%d" % (1 << 52)}
    await connection.call(*push_command(shard, ended, {}))
    await connection.call("HDEL", keyspace.LEAVING, entry.number)
    await connection.call("HDEL", keyspace.LEAVING_SINCE, entry.number)
    return True


async def _mark(index: RedisIndex, entry: InstanceEntry, delay_ms: int, deadline: float) -> None:
    name, cursor = keyspace.blocks(keyspace.instance(entry.number, 0)), b"0"
    while time.monotonic() < deadline:
        cursor, flat = await index.connection.call("HSCAN", name, cursor, "COUNT", CHUNK)
        keys = [codec.unpack_keys(field)[0] for field in flat[::2]]
        for at in range(0, len(keys), CHUNK):
            await index.remove_chunk(entry, "all", delay_ms, 0, 0, keys[at : at + CHUNK])
        if cursor == b"0":
            return
