"""One reclaimer a group: the lease, and the index as its holder uses it."""

from __future__ import annotations

import asyncio
import copy
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.exceptions import RedisError

from kvcm_platform.duties.lease import LEASE_MS, lease_keep
from kvcm_platform.index import keyspace
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.usage import UsagePusher
from kvcm_platform.index.waking import Waker

WAIT_SECONDS = 2.0
ASK_SECONDS = 0.1
KEEP_SECONDS = 2.0


class _Asleep(Waker):
    """A group that is being brought down needs nobody to be woken for it."""

    def marked(self, group_number: int) -> None:
        return None


class Hold:
    """While it lasts: `index` carries the lease's fencing number, and pushes what this holder changed."""

    def __init__(self, index: RedisIndex, lease: str, owner: str) -> None:
        self.index = index
        self._lease = lease
        self._owner = owner
        self._kept_at = time.monotonic()

    async def keep(self, *, now: bool = False) -> None:
        """Renews the lease when it is time. Raises Fenced when it is another's by now, redis.RedisError."""
        if not now and time.monotonic() - self._kept_at < KEEP_SECONDS:
            return
        if not await lease_keep(self.index, self._lease, self._owner):
            raise Fenced("the lease of the group's reclaim ran out")
        self._kept_at = time.monotonic()


@asynccontextmanager
async def reclaim_hold(index: RedisIndex, group_number: int) -> AsyncIterator[Hold | None]:
    """Waits for the lease of a group; None when another kept it all the time. Raises redis.RedisError."""
    lease, owner = keyspace.reclaim_lease(group_number), secrets.token_hex(8)
    call, deadline = index.connection.call, time.monotonic() + WAIT_SECONDS
    while not (fence := await call("FCALL", "kvcm_lease_take", 1, lease, owner, LEASE_MS)):
        if time.monotonic() > deadline:
            yield None
            return
        await asyncio.sleep(ASK_SECONDS)
    own = copy.copy(index)
    own.fence, own.duty = fence, "reclaim"
    # Whoever flushes it must find everything pushed, not find it being pushed by another.
    own.pusher = UsagePusher(index.connection, _Asleep(index.connection))
    try:
        yield Hold(own, lease, owner)
    finally:
        # One that cannot be given back runs out.
        with suppress(RedisError):
            await call("FCALL", "kvcm_lease_drop", 1, lease, owner)
