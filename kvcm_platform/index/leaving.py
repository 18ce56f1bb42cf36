"""Removed instances whose data is still being deleted: on record until the last key is gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kvcm_platform.core.registry import InstanceEntry, instance_from_dict

from . import codec, keyspace
from .redis_index import CHUNK, RedisIndex
from .usage import ShardRef, push

STAY_MS = 30_000
"""An instance stays on the list this long: a process that lags behind may still write for it."""


def leave_command(entry: InstanceEntry) -> tuple[str, ...]:
    """Puts an instance on the list."""
    return ("HSET", keyspace.LEAVING, str(entry.number), json.dumps(asdict(entry)))


def decode(flat: list[bytes] | Mapping[bytes, bytes]) -> list[InstanceEntry]:
    values: Any = flat.values() if isinstance(flat, Mapping) else flat[1::2]
    return [instance_from_dict(json.loads(raw)) for raw in values]


async def clear(index: RedisIndex, entry: InstanceEntry) -> bool:
    """Marks what is left of an instance; True when nothing was left and its keys are gone."""
    shard = ShardRef(entry.number, 0, entry.group_number)
    base = shard.base
    cursor = b"0"
    while True:
        cursor, flat = await index.connection.call("HSCAN", keyspace.blocks(base), cursor, "COUNT", CHUNK)
        keys = [codec.unpack_keys(field)[0] for field in flat[::2]]
        for at in range(0, len(keys), CHUNK):
            await index.remove_chunk(entry, "all", 0, 0, 0, keys[at : at + CHUNK])
        if cursor == b"0":
            break
    left = await index.connection.pipeline(
        [("HLEN", keyspace.blocks(base)), ("HLEN", keyspace.pending(base)), ("HLEN", keyspace.sessions(base))]
    )
    await push(index.connection, shard)
    now = index.now_ms()
    await index.connection.call("HSETNX", keyspace.LEAVING_SINCE, entry.number, now)
    since = int(await index.connection.call("HGET", keyspace.LEAVING_SINCE, entry.number))
    if any(left) or now - since < STAY_MS:
        return False
    await index.connection.call("DEL", *keyspace.all_of_instance(base))
    await index.connection.call(
        "HDEL", keyspace.group_vectors(keyspace.group(entry.group_number)), shard.name
    )
    await index.connection.call("HDEL", keyspace.LEAVING, entry.number)
    await index.connection.call("HDEL", keyspace.LEAVING_SINCE, entry.number)
    return True
