"""Whether background work waits: one pipeline for control's loop, which turns it into a task.

Besides, a task runs every SAFETY_SECONDS: it finds what no index shows, such as a push that a crash lost.
"""

from __future__ import annotations

import time

import redis

from kvcm_platform.core.registry import Registry

from . import keyspace, leaving, storage_checks
from .link import RESERVATION_MARGIN_MS

SAFETY_SECONDS = 2.0
AHEAD_MS = 600
"""Deletions are prepared so long before they are due: the server's log is written about once a second."""
CLEARING_MS = 3000
"""Storages that are to be empty, and those that cannot be asked yet, are looked at this often."""


def anything_due(client: redis.Redis, known: Registry) -> bool:
    """True when a session expired, a deletion is nearly due, a reservation or a lease of memory is stale,
    a trim is unfinished, or storages are to be looked at.
    """
    gone = leaving.decode(client.hgetall(keyspace.LEAVING))
    instances = [*known.instances.values(), *gone]
    groups = {entry.number for entry in known.groups.values()} | {e.group_number for e in gone}
    now = round(time.time() * 1000)
    pipeline = client.pipeline(transaction=False)
    for entry in instances:
        for shard in range(entry.shards):
            base = keyspace.instance(entry.number, shard)
            if entry.shards > 1:
                pipeline.zrangebyscore(keyspace.session_deadlines(base), "-inf", now, 0, 1)
            pipeline.zrangebyscore(keyspace.pending_due(base), "-inf", now + AHEAD_MS, 0, 1)
        pipeline.zrangebyscore(keyspace.open_sessions(entry.number, entry.shards), "-inf", now, 0, 1)
    for number in groups:
        deadlines = keyspace.group_reservation_deadlines(keyspace.group(number))
        pipeline.zrangebyscore(deadlines, "-inf", now - RESERVATION_MARGIN_MS, 0, 1)
    for segment in (one for storage in known.storages.values() for one in storage.segments):
        leases = keyspace.pool_lease_deadlines(keyspace.storage(segment.number))
        pipeline.zrangebyscore(leases, "-inf", now - RESERVATION_MARGIN_MS, 0, 1)
    pipeline.hlen(keyspace.TRIMS)
    pipeline.hexists(keyspace.GENERATION, "doubt")
    pipeline.hgetall(keyspace.STORAGE_CHECKS)
    pipeline.hgetall(keyspace.STORAGE_CHECKED)
    pipeline.get(keyspace.STORAGE_CLEARED_AT)
    *due, wanted, seen, cleared_at = pipeline.execute()
    checks = storage_checks.outstanding(wanted, seen)
    is_clearing = any(storage.cleared_numbers for storage in known.storages.values())
    if (checks or is_clearing) and now - int(cleared_at or 0) > CLEARING_MS:
        return True
    return any(due) or any(not seen.get(b"%d:waiting" % number) for number in checks)


def oldest_due(client: redis.Redis, known: Registry) -> float | None:
    """When the oldest deletion that waits is or was due, in unix seconds. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for entry in [*known.instances.values(), *leaving.decode(client.hgetall(keyspace.LEAVING))]:
        for shard in range(entry.shards):
            due = keyspace.pending_due(keyspace.instance(entry.number, shard))
            pipeline.zrangebyscore(due, "-inf", "+inf", 0, 1, withscores=True)
    found = [reply[0][1] / 1000 for reply in pipeline.execute() if reply]
    return min(found, default=None)


def enqueue_once(client: redis.Redis, seconds: float = 5.0, name: str = keyspace.DUTIES_QUEUED) -> bool:
    """Whether a task should be sent: False while one is queued and has not begun."""
    return bool(client.set(name, "1", nx=True, px=round(seconds * 1000)))


def begun(client: redis.Redis) -> None:
    client.delete(keyspace.DUTIES_QUEUED)
