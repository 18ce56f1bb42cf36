"""Due deletions of all shards, carried out until none is left or the time is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core.deletion import DeletionReport, PendingList
from kvcm_platform.core.executor import Executor
from kvcm_platform.duties.deleters import Deleters
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index.back_offs import RedisBackOffs
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.durability import Durability
from kvcm_platform.index.late_deletions import late_note
from kvcm_platform.index.pending import RedisPending, set_aside_of
from kvcm_platform.index.shards import ShardRef, shards_of

log = structlog.get_logger(__name__)

SHARDS_AT_ONCE = 8
SHARDS_ASKED = 500
"""Shards that are asked in one pipeline what is set aside there."""
WAIT_SECONDS = 0.25


class Deletions:
    """Those of one run. `failures` counts the times that a shard's or a storage's ended in an error."""

    def __init__(
        self,
        session: IndexSession,
        deadline: float,
        report: DeletionReport,
        *,
        batch: int,
        quarantine_ms: int,
        ahead_ms: int,
    ) -> None:
        """`batch`: deletions of a shard that are carried out together, behind one wait for their marks.

        That wait begins up to `ahead_ms` before they are due.
        """
        self._index = session.index
        self._shards = [shard for entry in session.instances for shard in shards_of(entry)]
        self._deadline = deadline
        self._batch = batch
        self._report = report
        self._deleters = Deleters(session)
        self._durability = Durability(self._index.connection)
        self._quarantine_ms = quarantine_ms
        self._ahead_ms = ahead_ms
        self.failures = 0

    async def run(self) -> None:
        """Raises Fenced."""
        executor = Executor(
            self._deleters.of, RedisBackOffs(self._index.connection), self._index.now_ms, self._report
        )
        try:
            await self._run(executor)
        finally:
            await executor.end()
            await self._deleters.close()
        await late_note(
            self._index.connection, refused=self._report.refused_on, deleted=self._report.deleted_on
        )

    async def _run(self, executor: Executor) -> None:
        waiting: Sequence[ShardRef] = self._shards
        while time.monotonic() < self._deadline:
            await self._resume(executor)
            waiting = await self._take(executor, waiting)
            if not waiting:
                if not self._is_busy(executor):
                    return
                await executor.wait(min(WAIT_SECONDS, max(0.0, self._deadline - time.monotonic())))
                waiting = self._shards

    async def _resume(self, executor: Executor) -> None:
        """Where a group's own server does not answer, what is set aside waits for the next run."""
        lists: dict[int, list[PendingList]] = {}
        try:
            for at in range(0, len(self._shards), SHARDS_ASKED):
                aside = await set_aside_of(self._index, self._shards[at : at + SHARDS_ASKED])
                for number, shards in aside.items():
                    lists.setdefault(number, []).extend(map(self._pending, shards))
        except RedisError as error:
            log.warning("what is set aside cannot be seen", reason=str(error))
            self.failures += 1
        await executor.resume(lists, self._deadline)

    async def _take(self, executor: Executor, shards: Sequence[ShardRef]) -> list[ShardRef]:
        """One batch of each shard; returns those that may have more."""
        places = asyncio.Semaphore(SHARDS_AT_ONCE)
        full: list[ShardRef] = []

        async def take(shard: ShardRef) -> None:
            async with places:
                if time.monotonic() < self._deadline:
                    try:
                        if await executor.take(self._pending(shard), self._batch) == self._batch:
                            full.append(shard)
                    except Fenced:
                        raise
                    except Exception:
                        log.exception("deletions failed", shard=shard.base)
                        self.failures += 1

        for outcome in await asyncio.gather(*map(take, shards), return_exceptions=True):
            if outcome is not None:
                raise outcome
        return full

    def _is_busy(self, executor: Executor) -> bool:
        try:
            return executor.is_busy
        except Fenced:
            raise
        except Exception:
            log.exception("deletions on a storage failed")
            self.failures += 1
            return True

    def _pending(self, shard: ShardRef) -> RedisPending:
        return RedisPending(
            self._index, shard, self._quarantine_ms, self._durability, ahead_ms=self._ahead_ms
        )
