"""What groups hold now, out of what the shards pushed to them."""

from __future__ import annotations

from collections.abc import Mapping

import redis

from kvcm_platform.core.levels import BLOCKS, PENDING, SERVING, WRITING, GroupReading
from kvcm_platform.core.registry import GroupEntry
from kvcm_platform.core.types import STORAGE_TYPE_BY_WIRE
from kvcm_platform.index import keyspace
from kvcm_platform.index.stats import parse_vector
from kvcm_platform.index.storage_refs import number_of, type_of

_STATES = {"w": WRITING, "s": SERVING, "p": PENDING}


def read_groups(client: redis.Redis, groups: Mapping[str, GroupEntry]) -> dict[str, GroupReading]:
    """One pipeline for all. A group whose own Redis is away is left out. Raises redis.RedisError.

    To `client` one that is away may seem empty: but every group has limits.
    """
    pipeline = client.pipeline(transaction=False)
    for group in groups.values():
        base = keyspace.group(group.number)
        pipeline.hget(keyspace.group_limits(base), "total")
        pipeline.hgetall(base)
        pipeline.hgetall(keyspace.group_vectors(base))
    replies = iter(pipeline.execute())
    found = {}
    for name in groups:
        limit, totals, vectors = next(replies), next(replies), next(replies)
        if limit is not None:
            found[name] = _reading(totals, vectors)
    return found


def _reading(totals: Mapping[bytes, bytes], vectors: Mapping[bytes, bytes]) -> GroupReading:
    reading = GroupReading(reserved_bytes=int(totals.get(b"r", 0)))
    for wire, kind in STORAGE_TYPE_BY_WIRE.items():
        reserved = int(totals.get(b"r:%d" % wire, 0))
        if reserved:
            reading.reserved_by_type[kind] = reserved
    for shard, raw in vectors.items():
        instance = int(shard.partition(b":")[0])
        for (ref, state), (size, count) in parse_vector(raw).items():
            what = _STATES[state]
            _add(reading, ref, instance, what, size)
            if what != PENDING:
                _add(reading, ref, instance, BLOCKS, count)
    return reading


def _add(reading: GroupReading, ref: int, instance: int, what: int, amount: int) -> None:
    reading.by_storage[number_of(ref)][what] += amount
    reading.by_instance[instance][what] += amount
    reading.by_type[type_of(ref)][what] += amount
