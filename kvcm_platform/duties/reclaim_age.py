"""When blocks go by their age alone: in groups with a time to live, without any mark."""

from __future__ import annotations

from kvcm_platform.core.reclaim.open_run import TTL
from kvcm_platform.core.reclaim.order import TICK
from kvcm_platform.core.types import ReclaimPolicy
from kvcm_platform.duties.reclaim_group import GroupTask
from kvcm_platform.index import keyspace
from kvcm_platform.index.reclaim_book import Book, last_name
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.shards import shards_of

TTL_PACE = 10
LONGEST_PACE_MS = 60_000
"""It is looked for them after a tenth of the time to live, a minute at most."""


def ttl_pace_ms(ttl_seconds: int) -> int:
    """How long after the last look for runs by age the next one comes."""
    return min(LONGEST_PACE_MS, ttl_seconds * 1000 // TTL_PACE)


async def is_aged(index: RedisIndex, task: GroupTask, book: Book) -> bool:
    """Whether some run of a group was not used for its time to live, and it is time to look."""
    reclaim = task.group.reclaim
    if reclaim.policy is not ReclaimPolicy.TTL or not reclaim.ttl_seconds:
        return False
    now = index.now_ms()
    last = book.last.get(last_name(task.group.number, TTL), 0)
    if now - last < ttl_pace_ms(reclaim.ttl_seconds):
        return False
    shards = [shard for entry in task.instances for shard in shards_of(entry)]
    if not shards:
        return False
    oldest = await index.connection.pipeline(
        [("ZRANGE", keyspace.recency(shard.base), 0, 0, "WITHSCORES") for shard in shards]
    )
    before = now - reclaim.ttl_seconds * 1000
    return any(flat and int(float(flat[1])) // TICK <= before for flat in oldest)
