"""The background duties of the index, composed: sessions, trims, reservations, pushes, deletions.

Each is safe to run anywhere and to stop anywhere; the lease only saves work. A shard whose duty
fails is reported and does not keep the others waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from kvcm_platform.core.deletion import DeletionReport
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.removal import delete_delay_ms
from kvcm_platform.duties.clearing import Clearing
from kvcm_platform.duties.damage import DamageCheck
from kvcm_platform.duties.deletions import Deletions
from kvcm_platform.duties.lease import lease_keep
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.duties.verify import Verification
from kvcm_platform.index import gone, keyspace, leaving, pools, sweeps, tickets, trims
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.damage import Damage
from kvcm_platform.index.pending import QUARANTINE_MS
from kvcm_platform.index.shards import shards_of

log = structlog.get_logger(__name__)

T = TypeVar("T")

RUN_SECONDS = 20.0
"""A run ends after this long; what is left is due again at once."""
SWEEP_SECONDS = 1.0
"""Expired sessions do not wait for long deletions (expiry takes effect within 2 s, WIRE.md A)."""
DELETE_BATCH = 16_384
"""Deletions of a shard behind one wait for the server's log, which is written about once a second."""


@dataclass(slots=True)
class DutiesReport:
    """What a run did.

    `cleared` = removed instances without data left; `cleared_locations` = locations on storages that
    are to be empty; `lost` = locations found without their object; `failures` = shards whose duty
    ended in an error (see the log).
    """

    sessions: int = 0
    trimmed: int = 0
    reservations: int = 0
    leases: int = 0
    pushes: int = 0
    cleared: int = 0
    cleared_locations: int = 0
    lost: int = 0
    failures: int = 0
    deletions: DeletionReport = field(default_factory=DeletionReport)
    damage: list[Damage] = field(default_factory=list)
    """Shards and groups that had lost keys by themselves."""


class DutyRun:
    """One round of everything that is due, and deletions until none is or the time is up."""

    def __init__(
        self,
        session: IndexSession,
        seconds: float,
        owner: str,
        batch: int,
        quarantine_ms: int,
        registry_version: int | None,
        reasons_kept_ms: int,
        ahead_ms: int,
    ) -> None:
        self._session = session
        self._index = session.index
        self._deadline = time.monotonic() + seconds
        self._owner = owner
        self._batch = batch
        self._quarantine_ms = quarantine_ms
        self._registry_version = registry_version
        self._reasons_kept_ms = reasons_kept_ms
        self._ahead_ms = ahead_ms
        self._swept_at = 0.0
        self.report = DutiesReport()

    async def run(self) -> DutiesReport:
        try:
            await self._run()
        except Fenced as error:
            log.warning("the duties were taken over", reason=str(error))
        return self.report

    async def _run(self) -> None:
        await self._sweep()
        self.report.lost += await self._verify()
        await self._clear_storages()
        self.report.trimmed += await trims.resume(self._index, self._session.reaches, self._deadline)
        await self._mend()
        await self._delete()
        for entry in self._session.leaving:
            await self._each(entry, self._clear)
            await self._sweep()
        await self._index.pusher.flush()
        shards = [shard for entry in self._session.instances for shard in shards_of(entry)]
        self.report.pushes += await sweeps.sweep_pushes(self._index, shards)
        await gone.forget_old(self._index, shards, self._reasons_kept_ms)

    async def _verify(self) -> int:
        """An index in doubt is checked for half of the run at most: what is due must not wait for it."""
        deadline = time.monotonic() + (self._deadline - time.monotonic()) / 2
        verification = Verification(self._session, deadline, self._sweep)
        try:
            return await verification.run()
        except Fenced:
            raise
        except Exception:
            log.exception("the check of the index failed")
            self.report.failures += 1
            return verification.lost

    async def _clear_storages(self) -> None:
        """For a quarter of the run at most."""
        deadline = time.monotonic() + (self._deadline - time.monotonic()) / 4
        clearing = Clearing(self._session, deadline, self._sweep, self._registry_version)
        try:
            await clearing.run()
        except Fenced:
            raise
        except Exception:
            log.exception("storages could not be cleared")
            self.report.failures += 1
        self.report.cleared_locations += clearing.cleared
        self.report.lost += clearing.lost

    async def _each(self, entry: InstanceEntry, duty: Callable[[InstanceEntry], Awaitable[int]]) -> int:
        """One duty of one instance; its failure is this instance's alone."""
        try:
            return await duty(entry)
        except Fenced:
            raise
        except Exception:
            log.exception("a duty failed", duty=duty.__name__, instance=entry.instance_id)
            self.report.failures += 1
            return 0

    async def _sweep(self) -> None:
        """Sessions, reservations and memory of pools, at most once a SWEEP_SECONDS; renews the lease."""
        if time.monotonic() - self._swept_at < SWEEP_SECONDS:
            return
        await self._keep_lease()
        for entry in self._session.instances:
            await self._each(entry, self._sweep_sessions)
        for number in self._session.group_numbers:
            self.report.reservations += await sweeps.sweep_reservations(self._index, number)
        await self._sweep_pools()
        await self._index.pusher.flush()
        self._swept_at = time.monotonic()

    async def _sweep_pools(self) -> None:
        storages = self._session.registry.storages.values()
        await pools.drop_lost(self._index, [number for one in storages for number in one.lost_numbers])
        for number in [segment.number for one in storages for segment in one.segments]:
            try:
                self.report.leases += await pools.sweep_leases(self._index, number, sweeps.BATCH)
            except Fenced:
                raise
            except Exception:
                log.exception("leases of memory could not be swept", segment=number)
                self.report.failures += 1
        await self._index.pools.flush()

    async def _keep_lease(self) -> None:
        """Raises Fenced when the lease ran out."""
        if not self._owner:
            return
        if not await lease_keep(self._index, keyspace.DUTIES_LEASE, self._owner):
            raise Fenced("the lease of the background duties ran out")

    async def _sweep_sessions(self, entry: InstanceEntry) -> int:
        storages = list(self._session.registry.storages.values())
        is_forced = entry in self._session.leaving
        ended = await tickets.sweep(self._index, entry, storages, sweeps.BATCH, is_forced=is_forced)
        for shard in shards_of(entry):
            ended += await sweeps.sweep_sessions(
                self._index, sweeps.SweptShard(shard, entry), storages, is_forced=is_forced
            )
        self.report.sessions += ended
        return ended

    async def _clear(self, entry: InstanceEntry) -> int:
        group = self._session.registry.groups.get(entry.group)
        is_gone = await leaving.clear(self._index, entry, delete_delay_ms(group), SWEEP_SECONDS)
        self.report.cleared += is_gone
        return is_gone

    async def _delete(self) -> None:
        deletions = Deletions(
            self._session,
            self._deadline,
            self.report.deletions,
            batch=self._batch,
            quarantine_ms=self._quarantine_ms,
            ahead_ms=self._ahead_ms,
        )
        try:
            await self._beside(deletions.run())
        finally:
            self.report.failures += deletions.failures

    async def _mend(self) -> None:
        """For half of the run at most, but for a shard that was begun with."""
        deadline = time.monotonic() + (self._deadline - time.monotonic()) / 2
        check = DamageCheck(self._session, deadline)
        try:
            self.report.damage += await self._beside(check.run())
        except Fenced:
            raise
        except Exception:
            log.exception("the look for lost keys failed")
            self.report.failures += 1

    async def _beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Does something that may take long; meanwhile sessions expire and the lease is kept."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=SWEEP_SECONDS / 4)
                await self._sweep()
                await self._index.pusher.flush()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def duties_run(
    session: IndexSession,
    *,
    seconds: float = RUN_SECONDS,
    owner: str = "",
    batch: int = DELETE_BATCH,
    quarantine_ms: int = QUARANTINE_MS,
    registry_version: int | None = None,
    reasons_kept_ms: int = gone.KEPT_SECONDS * 1000,
    ahead_ms: int = 0,
) -> DutiesReport:
    """`batch`: deletions of a shard that are carried out together, behind one wait for their marks.

    `quarantine_ms`: how long the places of failed writes are kept from others. `registry_version`: the
    database's; without it nothing is done about blocks on numbers that no storage has (strays.py).
    `reasons_kept_ms`: how long it can be asked why a block left. `ahead_ms`: deletions that are due so soon
    are waited for, and prepared meanwhile.
    """
    run = DutyRun(session, seconds, owner, batch, quarantine_ms, registry_version, reasons_kept_ms, ahead_ms)
    return await run.run()
