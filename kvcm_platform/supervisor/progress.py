"""What the supervisor tells about its children (hash `kvcm:supervisor`) and learns from their heartbeats."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from redis.asyncio import Redis

from kvcm_platform.index import heartbeat, keyspace

from .child import Child


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def publish(client: Redis, node: str, children: Iterable[Child]) -> None:
    """Write one field `<node>:<name>` a child: role, pid, state, restarts, started_at."""
    pipeline = client.pipeline(transaction=False)
    for child in children:
        state = {
            "name": child.spec.name,
            "node": node,
            "role": child.spec.role,
            "pid": child.pid,
            "state": child.state,
            "restarts": child.restarts,
            "started_at": child.started_at,
        }
        pipeline.hset(keyspace.SUPERVISOR, f"{node}:{child.spec.name}", json.dumps(state))
    await pipeline.execute()


async def forget(client: Redis, node: str) -> None:
    """Drop what an earlier supervisor of this node left."""
    names = [_text(name) for name in await client.hkeys(keyspace.SUPERVISOR)]
    stale = [name for name in names if name.startswith(f"{node}:")]
    if stale:
        await client.hdel(keyspace.SUPERVISOR, *stale)


async def fresh_pids(client: Redis, node: str) -> set[int]:
    """Processes of this node whose heartbeat is younger than five seconds."""
    found = set()
    for value in (await client.hgetall(keyspace.PROCESSES)).values():
        beat = json.loads(value)
        if beat["node"] == node and time.time() - beat["seen_at"] < heartbeat.STALE_SECONDS:
            found.add(int(beat["pid"]))
    return found
