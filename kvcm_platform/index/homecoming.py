"""Takes instances back into Redis whose index was in a metadata process of this node (homes.py).

With `KVCM_INDEX_BACKEND=redis` again, what Redis holds of them counts, and nothing else: the figures
that the process kept here are replaced by a count, and the duties look after them as after all others.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence

import structlog

from kvcm_platform.core.registry import InstanceEntry, StorageEntry

from . import homes, keyspace
from .connection import IndexUnavailable
from .recount import count_shard, repair_shard
from .redis_index import RedisIndex
from .shards import ShardRef, shards_of
from .usage import push

log = structlog.get_logger(__name__)
LEASE_MS = 30_000
WAIT_SECONDS = 0.1


async def come_home(index: RedisIndex, entries: Sequence[InstanceEntry], node_id: str) -> int:
    """Before this process serves; returns the number of instances taken back. May be repeated.

    One process does it at a time, the others wait: nobody writes for an instance before its figures
    are right. Raises IndexUnavailable, and recount.StillChanging while another node writes for it.
    """
    waiting = await _of_node(index, entries, node_id)
    if not waiting:
        return 0
    connection, owner = index.connection, secrets.token_hex(8)
    for _ in range(round(LEASE_MS / 1000 / WAIT_SECONDS) + 1):
        if await connection.call("SET", keyspace.HOMECOMING, owner, "NX", "PX", LEASE_MS):
            break
        await asyncio.sleep(WAIT_SECONDS)
    else:
        raise IndexUnavailable("another process has been taking instances back for too long")
    try:
        waiting = await _of_node(index, waiting, node_id)
        for entry in waiting:
            for shard in shards_of(entry):
                await _take_back(index, entry, shard)
            base = keyspace.instance(entry.number, 0)
            await connection.call("HDEL", base, homes.HOME, homes.SESSIONS)
            log.warning(
                "an instance's index is in Redis again: blocks that it had elsewhere are not served",
                instance=entry.instance_id,
            )
    finally:
        await connection.call("FCALL", "kvcm_lease_drop", 1, keyspace.HOMECOMING, owner)
    return len(waiting)


async def take_memory_back(index: RedisIndex, storages: Iterable[StorageEntry], node_id: str) -> int:
    """Memory of pools that an index in a process of this node gave out is given out here again.

    Blocks that lie there are not served any more, so it begins empty. Returns the number of segments.
    """
    bases = [keyspace.storage(segment.number) for storage in storages for segment in storage.segments]
    homes_of = await index.connection.pipeline([("HGET", base, "p:home") for base in bases])
    own = [base for base, home in zip(bases, homes_of, strict=True) if home == node_id.encode()]
    for base in own:
        await index.connection.call("HDEL", base, "p:home")
    return len(own)


async def _of_node(index: RedisIndex, entries: Sequence[InstanceEntry], node_id: str) -> list[InstanceEntry]:
    names = await index.connection.pipeline(
        [("HGET", keyspace.instance(entry.number, 0), homes.HOME) for entry in entries]
    )
    return [entry for entry, name in zip(entries, names, strict=True) if name == node_id.encode()]


async def _take_back(index: RedisIndex, entry: InstanceEntry, shard: ShardRef) -> None:
    """Replaces the figures of a shard; which node it was stays on record until all are replaced."""
    connection = index.connection
    kept = {homes.HOME.encode(), homes.SESSIONS.encode()}
    stale = [name for name in await connection.call("HKEYS", shard.base) if name not in kept]
    if stale:
        await connection.call("HDEL", shard.base, *stale)
    await connection.call("DEL", keyspace.events(shard.base))
    await repair_shard(index, await count_shard(index, entry, shard))
    # The vector of the other index is newer than any that comes from here: it goes first.
    group = keyspace.group(shard.group_number)
    await connection.call("HDEL", keyspace.group_vectors(group), shard.name)
    await connection.call("FCALL", "kvcm_retotal", 1, group)
    await push(connection, shard)
