"""Rounds of migrations: what policies ask for, and what somebody requested (DESIGN 5).

One process at a time works on them, under a lease of their own: they neither wait for the duties of
what is due nor keep them waiting. Every round is bounded; what is left is taken up by the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core import migration as rules
from kvcm_platform.core.migration import CopyRequest, Direction
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, MigrationPolicy, Registry, StorageEntry
from kvcm_platform.duties.copy_bytes import CopyBytes
from kvcm_platform.duties.copy_waves import Migration, Progress, Stop, Tally, Waves
from kvcm_platform.duties.lease import lease_keep
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import copy_totals, copying, keyspace
from kvcm_platform.index.ages import AgeWalk, HeldRun, Run, held
from kvcm_platform.index.held_bytes import live_usage
from kvcm_platform.index.shards import shards_of
from kvcm_platform.transfer import TransferOptions, Transfers

log = structlog.get_logger(__name__)

ROUND_SECONDS = 20.0
KEEP_SECONDS = 3.0
AT_ONCE = 2
"""Migrations that are worked on side by side."""
MOST_RUNS = 100_000
"""Runs that a round, or a look at what it would do, goes through."""
MOST_HOT_RUNS = 256
"""Runs of a shard that one round brings back."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A migration of which nothing can be done now, and why."""

    name: str
    direction: Direction
    group: GroupEntry
    reason: str


class CopyRound:
    """One round over all migrations. `progress` is told of each wave and may cancel."""

    def __init__(self, session: IndexSession, owner: str, seconds: float, progress: Progress) -> None:
        self._session = session
        self._index = session.index
        self._owner = owner
        self._deadline = time.monotonic() + seconds
        self._progress = progress
        self._limit = asyncio.Semaphore(AT_ONCE)
        self.blocked: list[Blocked] = []

    async def run(self, requests: Iterable[CopyRequest] = ()) -> list[tuple[Migration, Tally]]:
        """What was done, one entry for each migration that was worked on."""
        wanted = [*await self._of_policies(), *self._of_requests(requests)]
        if not wanted:
            return []
        storages = self._session.registry.storages.values()
        # The source goes for good soon after: its copy must be on the disk by then.
        transfers = CopyBytes(Transfers.from_entries(storages, options=TransferOptions(is_durable=True)))
        keeper = asyncio.ensure_future(self._keep_lease())
        try:
            works = [asyncio.ensure_future(self._carry_out(one, transfers)) for one in wanted]
            tallies = await _all_or_stopped(works, keeper)
        finally:
            keeper.cancel()
            await transfers.close()
        return list(zip(wanted, tallies, strict=True))

    async def _keep_lease(self) -> None:
        """Ends when the lease was lost."""
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            with suppress(RedisError):
                if not await lease_keep(self._index, keyspace.COPIES_LEASE, self._owner):
                    return

    async def _carry_out(self, what: Migration, transfers: CopyBytes) -> Tally:
        async with self._limit:
            waves = Waves(self._index, self._registry_now, transfers, what, self._deadline, self._progress)
            if what.direction is Direction.PROMOTION:
                await waves.run(self._hot(what), _nothing)
            else:
                await self._walk(what, waves)
            if waves.owed_seconds:
                at = self._index.now_ms() + round(waves.owed_seconds * 1000)
                await self._index.connection.call("HSET", keyspace.COPY_PACE, what.name, at)
            totals = {name: getattr(waves.tally, name) for name in copy_totals.NAMES}
            await copy_totals.add(self._index.connection, what.group.name, what.direction.value, totals)
            if waves.tally.reasons:
                log.warning("blocks could not be copied", migration=what.name, reasons=waves.tally.reasons)
            return waves.tally

    async def _registry_now(self) -> Registry:
        session = self._session
        return (session if session.read_again is None else await session.read_again()).registry

    async def _walk(self, what: Migration, waves: Waves) -> None:
        is_request = what.direction is Direction.REQUEST
        walk = AgeWalk(
            self._index,
            what.instances,
            what.source.numbers,
            f"{what.name}:{what.source.number}",
            is_once=is_request,
        )
        await walk.resume()

        async def deal_with(runs: Sequence[HeldRun]) -> None:
            for one in runs:
                walk.mark(one.run)

        tally = await waves.run(walk.runs(MOST_RUNS), deal_with)
        await walk.keep()
        if tally.stop is Stop.DONE and not walk.is_over and walk.looked_at >= MOST_RUNS:
            tally.stop = Stop.TIME

    async def _hot(self, what: Migration) -> AsyncIterator[HeldRun]:
        """Runs on the policy's target that were used often lately; those found elsewhere are forgotten."""
        policy = what.group.migration
        uses = policy.promote_after_hits if policy else 0
        for entry in what.instances:
            for shard in shards_of(entry):
                hot = await copying.hot_runs(self._index, shard.base, uses, MOST_HOT_RUNS)
                runs = [Run(entry, shard, name, score) for name, score in hot]
                there = await held(self._index, runs, what.source.numbers)
                gone = {run.name for run in runs} - {one.run.name for one in there}
                if gone:
                    await self._index.function("kvcm_cooled", shard.base, *sorted(gone))
                for one in there:
                    yield one

    async def _of_policies(self) -> list[Migration]:
        registry = self._session.registry
        groups = [g for g in registry.groups.values() if g.migration is not None and g.migration.is_enabled]
        groups = [group for group in groups if group.number not in self._session.cut_off]
        if not groups:
            return []
        usage = await live_usage(self._index.connection, self._session.group_numbers)
        found: list[Migration] = []
        for group in groups:
            instances = self._session.instances_of(group.name)
            asked = policy_migrations(registry, group, instances, usage, self.blocked)
            found += [one for one in asked if await self._is_time(one)]
        return found

    def _of_requests(self, requests: Iterable[CopyRequest]) -> list[Migration]:
        registry = self._session.registry
        found = []
        for wish in requests:
            group = registry.groups.get(wish.group)
            if group is None:
                continue
            instances = self._session.instances_of(group.name, wish.instance_id)
            made = request_migration(registry, group, instances, wish, self._index.now_ms())
            if isinstance(made, Blocked):
                self.blocked.append(made)
            else:
                found.append(made)
        return found

    async def _is_time(self, what: Migration) -> bool:
        """Whether the limit of bytes a second lets it go on already."""
        if not what.max_bytes_per_second:
            return True
        at = await self._index.connection.call("HGET", keyspace.COPY_PACE, what.name)
        return int(at or 0) <= self._index.now_ms()


async def _nothing(_: Sequence[HeldRun]) -> None:
    return None


async def _all_or_stopped(
    works: Collection[asyncio.Future[Tally]], keeper: asyncio.Future[None]
) -> list[Tally]:
    """The tallies in order; all work is cancelled when the lease was lost, which `Fenced` would stop too."""
    everything: asyncio.Future[Any] = asyncio.gather(*works, return_exceptions=True)
    ends: set[asyncio.Future[Any]] = {everything, keeper}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not everything.done():
        for work in works:
            work.cancel()
    results = await everything
    tallies = []
    for result in results:
        if isinstance(result, asyncio.CancelledError):
            result = Tally(stop=Stop.FENCED)
        if isinstance(result, BaseException):
            log.error("a migration failed", exc_info=result)
            result = Tally(stop=Stop.STORAGE, detail=str(result) or type(result).__name__)
        tallies.append(result)
    return tallies


def policy_migrations(
    registry: Registry,
    group: GroupEntry,
    instances: tuple[InstanceEntry, ...],
    usage: rules.Usage,
    blocked: list[Blocked],
) -> list[Migration]:
    """What a group's policy asks for now: cold blocks out, used ones back."""
    policy = group.migration
    if policy is None or not instances:
        return []
    name = f"p:{group.number}"
    source, target = registry.storages.get(policy.source), registry.storages.get(policy.target)
    if source is None or target is None:
        reason = rules.obstacle(source, target, (policy.source, policy.target))
        blocked.append(Blocked(name, Direction.DEMOTION, group, reason))
        return []
    shares = rules.occupancies(registry, group, source, usage)
    wanted, found = rules.demand(policy, shares), []
    if wanted:
        reason = rules.obstacle(source, target, (policy.source, policy.target))
        if reason:
            blocked.append(Blocked(name, Direction.DEMOTION, group, reason))
        else:
            found.append(
                _migration(name, Direction.DEMOTION, group, instances, (source, target), policy, wanted)
            )
    left = rules.room(policy, shares)
    if policy.promote_after_hits and not wanted and left != 0:
        reason = rules.obstacle(target, source, (policy.target, policy.source))
        if reason:
            blocked.append(Blocked(f"{name}:up", Direction.PROMOTION, group, reason))
        else:
            back = _migration(
                f"{name}:up", Direction.PROMOTION, group, instances, (target, source), policy, left
            )
            found.append(replace(back, is_cooled=True))
    return found


def _migration(
    name: str,
    direction: Direction,
    group: GroupEntry,
    instances: tuple[InstanceEntry, ...],
    way: tuple[StorageEntry, StorageEntry],
    policy: MigrationPolicy,
    most_bytes: int | None,
) -> Migration:
    return Migration(
        name=name,
        direction=direction,
        group=group,
        instances=instances,
        source=way[0],
        target=way[1],
        retention=policy.retention,
        most_bytes=most_bytes,
        max_bytes_per_second=policy.max_bytes_per_second,
        is_verified=policy.verify,
    )


def request_migration(
    registry: Registry,
    group: GroupEntry,
    instances: tuple[InstanceEntry, ...],
    wish: CopyRequest,
    now_ms: int,
) -> Migration | Blocked:
    source, target = registry.storages.get(wish.source), registry.storages.get(wish.target)
    reason = rules.obstacle(source, target, (wish.source, wish.target))
    if reason or source is None or target is None:
        return Blocked(wish.name, Direction.REQUEST, group, reason)
    return Migration(
        name=wish.name,
        direction=Direction.REQUEST,
        group=group,
        instances=instances,
        source=source,
        target=target,
        retention=wish.retention,
        most_bytes=wish.most_bytes or None,
        idle_before_ms=now_ms - wish.idle_seconds * 1000 if wish.idle_seconds else None,
        max_bytes_per_second=wish.max_bytes_per_second,
        is_verified=wish.is_verified,
    )
