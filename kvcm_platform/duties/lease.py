"""The leases under which one process at a time works on a kind of duty."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.exceptions import RedisError

from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import keyspace
from kvcm_platform.index.redis_index import RedisIndex

LEASE_MS = 10_000


@asynccontextmanager
async def duties_lease(session: IndexSession) -> AsyncIterator[str]:
    """Holds the lease of what is due and gives its owner's name; an empty one while another process has it.

    What the session's index changes meanwhile carries the lease's fencing number.
    """
    async with _held(session.index, keyspace.DUTIES_LEASE, keyspace.DUTIES_QUEUED) as owner:
        yield owner


@asynccontextmanager
async def copies_lease(session: IndexSession) -> AsyncIterator[str]:
    """The same of migrations, which are fenced apart from all other duties."""
    session.index.duty = "copies"
    async with _held(session.index, keyspace.COPIES_LEASE, keyspace.COPIES_QUEUED) as owner:
        yield owner


@asynccontextmanager
async def _held(index: RedisIndex, lease: str, queued: str) -> AsyncIterator[str]:
    call, owner = index.connection.call, secrets.token_hex(8)
    index.fence = await call("FCALL", "kvcm_lease_take", 1, lease, owner, LEASE_MS)
    await call("DEL", queued)
    try:
        yield owner if index.fence else ""
    finally:
        # One that cannot be given back runs out.
        with suppress(RedisError):
            await call("FCALL", "kvcm_lease_drop", 1, lease, owner)


async def lease_keep(index: RedisIndex, lease: str, owner: str) -> bool:
    """Holds it for another LEASE_MS; False when it is another one's by now. Raises redis.RedisError."""
    return bool(await index.connection.call("FCALL", "kvcm_lease_keep", 1, lease, owner, LEASE_MS))
