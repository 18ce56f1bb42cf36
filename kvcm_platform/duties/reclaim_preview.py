"""What reclaim would take of a group now: the same choice as in a run, and nothing is marked."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvcm_platform.core.reclaim.marks import Demand, demands
from kvcm_platform.core.reclaim.order import Chain, Pick, RunView
from kvcm_platform.core.reclaim.plan import Goal, Source, make_plan
from kvcm_platform.core.reclaim.runs import ReclaimRequest, share_add
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Registry
from kvcm_platform.core.types import ReclaimPolicy
from kvcm_platform.duties.reclaim_choice import PLAN_BLOCKS, Choice, Target
from kvcm_platform.duties.reclaim_targets import (
    amount_of,
    is_to_low_marks,
    lowering,
    narrowed,
    request_scope,
    scope_dict,
    target_of,
    unfit,
)
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import codec, keyspace, served
from kvcm_platform.index.coldest import ColdestWalk
from kvcm_platform.index.held_bytes import read_usage
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.run_views import Sought

PREVIEW_SECONDS = 5.0
MOST_CANDIDATES = 100
HISTOGRAM_SECONDS = (0, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400)
"""Where the classes of ages begin."""

_RunKey = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Blocks of one run that would go. `key` and `depth` are of the run's first block."""

    instance_id: str
    key: int
    depth: int
    idle_ms: int
    blocks: int
    bytes: int
    storage: str


@dataclass(frozen=True, slots=True)
class AgeClass:
    """Blocks that may go and were last used between so many seconds ago; `idle_to_seconds` None = no end."""

    idle_from_seconds: int
    idle_to_seconds: int | None
    blocks: int
    bytes: int


@dataclass(slots=True)
class ReclaimPreview:
    """`obstacle` says why a request can be about nothing. Of one that is not `is_complete` there was not time
    for everything: what is planned and in the histogram is a lower bound, what is evictable an upper one.
    """

    obstacle: str = ""
    scopes: list[dict[str, Any]] = field(default_factory=list)
    """What is over its mark, as RunReport.scopes."""
    planned_blocks: int = 0
    planned_bytes: int = 0
    evictable_blocks: int = 0
    evictable_bytes: int = 0
    """Everything that may go within the request's scope, or of the group."""
    by_instance: dict[str, list[int]] = field(default_factory=dict)
    """Instance id -> [blocks, bytes] planned."""
    by_storage: dict[str, list[int]] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    """The first that would go, in their order."""
    age_histogram: list[AgeClass] = field(default_factory=list)
    used_before_bytes: int = 0
    used_after_bytes: int = 0
    capacity_bytes: int = 0
    is_complete: bool = True


async def reclaim_preview(
    session: IndexSession,
    group: GroupEntry,
    request: ReclaimRequest | None = None,
    *,
    seconds: float = PREVIEW_SECONDS,
) -> ReclaimPreview:
    """What a request would take, or without one what the group's marks ask for.

    `group` may have other settings than the published one: what it would take with these. Nothing is
    changed. Raises redis.RedisError.
    """
    return await _Preview(session, group, seconds).look(request)


class _Preview:
    def __init__(self, session: IndexSession, group: GroupEntry, seconds: float) -> None:
        registry = session.registry
        self._registry: Registry = replace(registry, groups={**registry.groups, group.name: group})
        self._session = session
        self._index: RedisIndex = session.index
        self._group = group
        self._instances: tuple[InstanceEntry, ...] = session.instances_of(group.name)
        self._deadline = time.monotonic() + seconds
        self._choice = Choice(session.index, self._registry, group, self._instances)
        self._taken: dict[_RunKey, int] = {}
        self._amounts: dict[tuple[int, int], tuple[int, int]] = {}
        self._picks: list[Pick] = []
        self.found = ReclaimPreview(capacity_bytes=group.quota.capacity_bytes)

    async def look(self, request: ReclaimRequest | None) -> ReclaimPreview:
        found, now = self.found, self._index.now_ms()
        usage = await read_usage(self._index.connection, self._session.group_numbers)
        found.used_before_bytes = found.used_after_bytes = usage.of_group(self._group.number)
        scope = Target(("", ""), None)
        wanted: list[Demand] = []
        if request is not None:
            found.obstacle = unfit(self._registry, self._instances, request)
            if found.obstacle:
                return found
            scope = request_scope(self._registry, self._instances, request)
            if request.idle_seconds:
                scope = replace(scope, idle_before_ms=now - request.idle_seconds * 1000)
        await self._choice.look_again()
        if request is None:
            wanted = demands(self._registry, self._group, usage)
        elif is_to_low_marks(request):
            wanted = lowering(self._registry, self._group, self._instances, usage)
        else:
            amount, in_blocks = amount_of(request, scope, self._choice.served)
            await self._plan(replace(scope, name=("", "request"), amount=amount, in_blocks=in_blocks))
        found.scopes = [scope_dict(one) for one in wanted]
        for one in wanted:
            target = narrowed(replace(target_of(one), amount=one.left(self._amounts)), scope)
            if target is not None:
                await self._plan(target)
        reclaim = self._group.reclaim
        if request is None and reclaim.policy is ReclaimPolicy.TTL and reclaim.ttl_seconds:
            await self._plan(
                replace(scope, name=("", "ttl"), idle_before_ms=now - reclaim.ttl_seconds * 1000)
            )
        await self._tell(now)
        await self._ages(scope, now)
        return found

    async def _plan(self, target: Target) -> None:
        """Chooses for one target, beside what was chosen for those before it."""
        goal = Goal(target.amount, target.in_blocks)
        while not goal.is_reached:
            if time.monotonic() > self._deadline:
                self.found.is_complete = False
                return
            plan = await make_plan(
                self._others(self._choice.source(target)),
                self._group.reclaim.budget,
                goal,
                self._available(target),
                PLAN_BLOCKS,
            )
            for one in plan.picks:
                self._take(one)
                for size in one.run.sizes[: one.blocks]:
                    goal.take(size)
            if plan.is_all or not plan.picks:
                return

    def _available(self, target: Target) -> dict[int, int]:
        unit = 0 if target.in_blocks else 1
        found: dict[int, int] = {}
        for where, amounts in self._choice.served.items():
            if target.covers(*where):
                left = amounts[unit] - self._amounts.get(where, (0, 0))[unit]
                found[where[0]] = found.get(where[0], 0) + left
        return found

    def _others(self, source: Source) -> Source:
        """The same chains without what was chosen already."""

        async def without(chains: AsyncIterator[Chain]) -> AsyncIterator[Chain]:
            async for chain in chains:
                runs = [run.without(self._taken.get(_key(run), 0)) for run in chain.runs]
                left = [run for run in runs if run.sizes]
                if left:
                    yield Chain(chain.instance, left)
                if time.monotonic() > self._deadline:
                    self.found.is_complete = False
                    return

        return lambda instance: without(source(instance))

    def _take(self, one: Pick) -> None:
        self._picks.append(one)
        key = _key(one.run)
        self._taken[key] = self._taken.get(key, 0) + one.blocks
        where = one.run.instance, one.run.storage
        blocks, size = self._amounts.get(where, (0, 0))
        self._amounts[where] = (blocks + one.blocks, size + one.size)

    async def _tell(self, now: int) -> None:
        found = self.found
        instances = {entry.number: entry.instance_id for entry in self._instances}
        storages = self._registry.storage_by_number()
        names = {number: storage.name for number, storage in storages.items()}
        for (instance, number), (blocks, size) in self._amounts.items():
            share_add(found.by_instance, instances[instance], blocks, size)
            share_add(found.by_storage, names.get(number, f"#{number}"), blocks, size)
            found.planned_blocks += blocks
            found.planned_bytes += size
        found.used_after_bytes = max(0, found.used_before_bytes - found.planned_bytes)
        first = self._picks[:MOST_CANDIDATES]
        keys = await self._first_keys([one.run for one in first])
        for one, key in zip(first, keys, strict=True):
            found.candidates.append(
                Candidate(
                    instance_id=instances[one.run.instance],
                    key=key,
                    depth=one.run.depth,
                    idle_ms=max(0, now - one.run.tick_ms),
                    blocks=one.blocks,
                    bytes=one.size,
                    storage=names.get(one.run.storage, f"#{one.run.storage}"),
                )
            )

    async def _first_keys(self, runs: Sequence[RunView]) -> list[int]:
        blobs = await self._index.connection.pipeline(
            [("HGET", keyspace.runs(keyspace.instance(run.instance, run.shard)), run.name) for run in runs]
        )
        return [codec.unpack_keys(blob[:8])[0] if blob else 0 for blob in blobs]

    async def _ages(self, scope: Target, now: int) -> None:
        """Goes through everything that may go within a scope."""
        found, counts = self.found, [[0, 0] for _ in HISTOGRAM_SECONDS]
        holding = {owner for owner, number in self._choice.served if scope.covers(owner, number)}
        walk = ColdestWalk(
            self._index,
            [entry for entry in self._instances if entry.number in holding],
            Sought(self._choice.written_before_ms, scope.numbers),
            idle_before_ms=scope.idle_before_ms,
        )
        async for chain in walk.chains():
            for run in chain.runs:
                idle = max(0, now - run.tick_ms) // 1000
                two = counts[bisect_right(HISTOGRAM_SECONDS, idle) - 1]
                two[0] += len(run.sizes)
                two[1] += run.size
            if time.monotonic() > self._deadline:
                found.is_complete = False
                break
        ends: list[int | None] = [*HISTOGRAM_SECONDS[1:], None]
        for begin, end, (blocks, size) in zip(HISTOGRAM_SECONDS, ends, counts, strict=True):
            found.age_histogram.append(AgeClass(begin, end, blocks, size))
            found.evictable_blocks += blocks
            found.evictable_bytes += size
        if not found.is_complete and scope.idle_before_ms is None:
            found.evictable_blocks, found.evictable_bytes = served.total(
                self._choice.served, scope.numbers, scope.instance
            )


def _key(run: RunView) -> _RunKey:
    return run.instance, run.shard, run.name
