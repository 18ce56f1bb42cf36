"""Removes blocks that lost their storage (DESIGN 5), shard by shard.

Three reasons: the storage is to be empty (it is being removed, or the memory behind one of its
numbers is gone), no storage has the number any more (strays.py), or somebody asked whether its
objects are still there (index/storage_checks.py). What is removed goes the way of every deletion;
objects on numbers that no storage has cannot be deleted and become orphans.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import structlog

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.removal import MIN_DELETE_DELAY_MS
from kvcm_platform.duties.presence import CannotBeAsked, Presence
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.duties.strays import Strays
from kvcm_platform.index import keyspace
from kvcm_platform.index.shards import ShardRef, shards_of
from kvcm_platform.index.storage_checks import CheckBook
from kvcm_platform.index.storage_walk import ShardWalk, WalkTask, live_numbers

log = structlog.get_logger(__name__)


class Clearing:
    """One bounded round over all shards that have blocks on such a storage."""

    def __init__(
        self,
        session: IndexSession,
        deadline: float,
        pause: Callable[[], Awaitable[None]],
        registry_version: int | None = None,
    ) -> None:
        """`registry_version`: of the database, where it is known (strays.py)."""
        self._session = session
        self._strays = Strays(session, registry_version)
        self._deadline = deadline
        self._pause = pause
        self._book = CheckBook(session.index.connection)
        self._presence = Presence(session)
        self._waiting: dict[int, str] = {}
        self.cleared = 0
        self.lost = 0

    async def run(self) -> None:
        """Raises redis.RedisError; what was done by then is done."""
        storages = self._session.registry.storages.values()
        strays = await self._strays.numbers()
        if strays:
            log.warning("blocks on numbers that no storage has are removed", numbers=sorted(strays))
        clear = strays.union(number for storage in storages for number in storage.cleared_numbers)
        check = await self._book.outstanding()
        if not clear and not check:
            return
        task = WalkTask(clear, {number: wish for number, wish in check.items() if number not in clear})
        try:
            left = await self._walk(task)
        finally:
            await self._presence.close()
        for number, request in check.items():
            if left.get(number):
                await self._book.note_left(number, left[number], self._waiting.get(number, ""))
            else:
                await self._book.over(number, request, self._session.index.now_ms())
        now = self._session.index.now_ms()
        await self._session.index.connection.call("SET", keyspace.STORAGE_CLEARED_AT, now)

    async def _walk(self, task: WalkTask) -> dict[int, int]:
        """Number -> shards that have still to be seen for it."""
        left: dict[int, int] = {}
        for entry in self._session.instances:
            for shard in shards_of(entry):
                if not await self._walk_shard(entry, shard, task):
                    for number in await live_numbers(self._session.index, shard):
                        left[number] = left.get(number, 0) + 1
        return left

    async def _walk_shard(self, entry: InstanceEntry, shard: ShardRef, task: WalkTask) -> bool:
        """True when nothing is left to be seen in the shard."""
        walk = ShardWalk(self._session.index, entry, shard, task, MIN_DELETE_DELAY_MS)
        if not await walk.is_needed():
            return True
        if time.monotonic() > self._deadline:
            return False
        try:
            return await walk.run(self._presence.of, self._deadline, self._pause)
        except CannotBeAsked as error:
            self._waiting[error.number] = str(error)
            return False
        finally:
            await self._note(walk, task)

    async def _note(self, walk: ShardWalk, task: WalkTask) -> None:
        for number, count in walk.removed.items():
            if number in task.clear:
                self.cleared += count
            else:
                self.lost += count
                await self._book.note_lost(number, count)
                log.warning("blocks without their object were removed", storage=number, blocks=count)
