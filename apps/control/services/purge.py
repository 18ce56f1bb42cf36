"""Takes out of the index what removed objects left there, an hour after they went.

A tombstone in the registry makes the index refuse publications from before the removal; after an
hour none is under way. An instance's counters become part of the totals of all that ever were.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import redis
import structlog

from apps.common.selectors import Removal, removals_due
from apps.common.services import removals_forget, removals_postpone
from kvcm_platform.index import copy_totals, keyspace, leaving
from kvcm_platform.index.facts import COUNTER_NAMES, GROUP_COUNTER_NAMES
from kvcm_platform.index.registry import field_of
from kvcm_platform.index.storage_checks import forget_checks

log = structlog.get_logger(__name__)

_AT_ONCE = 200
_LOOK_AGAIN = timedelta(minutes=10)

# Whether the object is gone for good: not in the registry again, and not removed again since.
_FORGET = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known then return 1 end
local version = string.match(known, '^(%d+) $')
if not version or tonumber(version) > tonumber(ARGV[2]) then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
"""
_FOLD = """
for i = 2, #ARGV do
  local field = ARGV[1] .. '|' .. ARGV[i]
  local amount = redis.call('HGET', KEYS[1], field)
  if amount then
    redis.call('HINCRBY', KEYS[1], '|' .. ARGV[i], amount)
    redis.call('HDEL', KEYS[1], field)
  end
end
return 1
"""
# KEYS[1] holds the usage vectors of the group's shards: with one of them the group still has data.
_DROP_GROUP = """
if redis.call('HLEN', KEYS[1]) > 0 then return 0 end
redis.call('DEL', unpack(KEYS))
return 1
"""
# KEYS[1] has the slot sizes of a memory segment, which name further keys of it.
_DROP_STORAGE = """
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 4) == 'p:s:' then
    redis.call('UNLINK', KEYS[1] .. ':h' .. string.sub(field, 5))
  end
end
return redis.call('UNLINK', unpack(KEYS))
"""


def purge(*, client: redis.Redis, now: datetime) -> int:
    """One bounded pass; returns how many removals are done with. Raises redis.RedisError."""
    due = removals_due(now=now, at_most=_AT_ONCE)
    if not due:
        return 0
    busy_instances, busy_groups = _leaving(client)
    done = [removal.id for removal in due if _is_purged(client, removal, busy_instances, busy_groups)]
    removals_forget(ids=done)
    waiting = {removal.id for removal in due} - set(done)
    removals_postpone(ids=waiting, until=now + _LOOK_AGAIN)
    return len(done)


def _leaving(client: redis.Redis) -> tuple[set[int], set[int]]:
    """Numbers of removed instances whose data is still being deleted, and of their groups."""
    entries = leaving.decode(client.hgetall(keyspace.LEAVING))
    return {entry.number for entry in entries}, {entry.group_number for entry in entries}


def _is_purged(
    client: redis.Redis, removal: Removal, busy_instances: Collection[int], busy_groups: Collection[int]
) -> bool:
    """Purge one object's traces; False where its data is not gone yet."""
    if removal.kind == "instance" and removal.number in busy_instances:
        return False
    if removal.kind == "group" and (removal.number in busy_groups or not _drop_group(client, removal.number)):
        return False
    field = field_of(removal.kind, removal.name)
    is_gone = client.eval(_FORGET, 1, keyspace.REGISTRY, field, removal.version)
    if is_gone and removal.kind == "instance":
        client.eval(_FOLD, 1, keyspace.COUNTERS, removal.name, *COUNTER_NAMES)
    if is_gone and removal.kind == "group":
        client.hdel(keyspace.PLACED, f"g:{removal.number}")
        client.hdel(keyspace.GROUP_COUNTERS, *(f"{removal.name}|{name}" for name in GROUP_COUNTER_NAMES))
        copy_totals.forget(client, removal.name)
    if removal.kind in {"storage", "segment"}:
        _drop_storage(client, removal.number)
    return True


def _drop_storage(client: redis.Redis, number: int) -> None:
    """What was kept of a storage or a memory segment; their numbers are never given again."""
    base = keyspace.storage(number)
    suffixes = (
        *(keyspace.slot_files, keyspace.orphans, keyspace.pool_ranges, keyspace.pool_runs),
        *(keyspace.pool_leases, keyspace.pool_lease_deadlines),
    )
    keys = [base, *(suffix(base) for suffix in suffixes)]
    client.eval(_DROP_STORAGE, len(keys), *keys)
    forget_checks(client, number)
    client.hdel(keyspace.LATE_DELETIONS, f"{number}:since", f"{number}:why")


def _drop_group(client: redis.Redis, number: int) -> bool:
    """False while the group has data left, or a Redis of its own that does not answer."""
    keys = _keys_of_group(number)
    try:
        return bool(client.eval(_DROP_GROUP, len(keys), *keys))
    except redis.RedisError as error:
        log.warning("a removed group's keys cannot be dropped yet", group=number, reason=str(error))
        return False


def _keys_of_group(number: int) -> list[str]:
    base = keyspace.group(number)
    return [
        keyspace.group_vectors(base),
        base,
        keyspace.group_limits(base),
        keyspace.group_reservations(base),
        keyspace.group_reservation_deadlines(base),
        keyspace.group_permits(base),
        keyspace.group_sessions(base),
    ]
