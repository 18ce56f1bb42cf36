"""What reclaim would take of a group now: the same for a run and for a preview. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from kvcm_platform.core.reclaim.order import Chain
from kvcm_platform.core.reclaim.plan import Goal, Plan, Source, make_plan
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Registry
from kvcm_platform.core.types import ReclaimPolicy
from kvcm_platform.index import served
from kvcm_platform.index.coldest import ColdestWalk
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.run_views import Poisoned, Sought
from kvcm_platform.index.served import Served

PLAN_BLOCKS = 1 << 17
"""Blocks that are chosen ahead at most; the rest is chosen when these are gone."""
FAR = 86_400_000
"""Without a grace time any block may go, however late its server's clock makes it."""


@dataclass(frozen=True, slots=True)
class Target:
    """So much has to go. `amount` in bytes or blocks; None = all there is."""

    name: tuple[str, str]
    """Which limit asks for it, (scope, subject); ("", "") where none does."""
    amount: int | None
    in_blocks: bool = False
    numbers: frozenset[int] | None = None
    """Storage numbers that the blocks have to lie on; None = any."""
    instance: int | None = None
    """Number of the instance that they have to be of; None = any."""
    idle_before_ms: int | None = None

    def covers(self, instance: int, number: int) -> bool:
        return self.instance in (None, instance) and (self.numbers is None or number in self.numbers)


class Choice:
    """Chooses among the blocks of some instances of a group, by the group's settings.

    `poisoned` are runs that could not be read so far, `looked_at` counts those that were.
    """

    def __init__(
        self,
        index: RedisIndex,
        registry: Registry,
        group: GroupEntry,
        instances: Sequence[InstanceEntry],
    ) -> None:
        self._index = index
        self._group = group
        self._instances = instances
        preferred = registry.storages.get(group.reclaim.storage_unique_name)
        self._preferred = frozenset(preferred.numbers) if preferred is not None else frozenset()
        self._walks: list[ColdestWalk] = []
        self.served: Served = {}

    @property
    def written_before_ms(self) -> int:
        grace = self._group.reclaim.grace_seconds
        return self._index.now_ms() - grace * 1000 if grace else self._index.now_ms() + FAR

    @property
    def poisoned(self) -> list[Poisoned]:
        return [one for walk in self._walks for one in walk.poisoned]

    @property
    def looked_at(self) -> int:
        return sum(walk.looked_at for walk in self._walks)

    async def look_again(self) -> None:
        """Reads what each instance has. Raises redis.RedisError."""
        self.served = await served.served_amounts(self._index, self._instances)

    def available(self, target: Target) -> dict[int, int]:
        """What each instance could give of it, in the target's unit."""
        found: dict[int, int] = {}
        for (instance, number), (blocks, size) in self.served.items():
            if target.covers(instance, number):
                found[instance] = found.get(instance, 0) + (blocks if target.in_blocks else size)
        return found

    async def plan(self, target: Target, most_blocks: int = PLAN_BLOCKS) -> Plan:
        """Raises redis.RedisError."""
        await self.look_again()
        self._walks = []
        goal = Goal(target.amount, target.in_blocks)
        return await make_plan(
            self.source(target), self._group.reclaim.budget, goal, self.available(target), most_blocks
        )

    def source(self, target: Target) -> Source:
        def of(instance: int | None) -> AsyncIterator[Chain]:
            return self._chains(target, instance)

        return of

    async def _chains(self, target: Target, instance: int | None) -> AsyncIterator[Chain]:
        """Those on the preferred storage first."""
        for sought in self._stages(target):
            holding = {
                owner
                for owner, number in self.served
                if target.covers(owner, number) and sought.is_on(number) and instance in (None, owner)
            }
            if not holding:
                continue
            walk = ColdestWalk(
                self._index,
                [entry for entry in self._instances if entry.number in holding],
                sought,
                idle_before_ms=target.idle_before_ms,
                counts_uses=self._group.reclaim.policy is ReclaimPolicy.LFU,
            )
            self._walks.append(walk)
            async for chain in walk.chains():
                yield chain

    def _stages(self, target: Target) -> list[Sought]:
        before = self.written_before_ms
        if not self._preferred:
            return [Sought(before, target.numbers)]
        first = self._preferred if target.numbers is None else self._preferred & target.numbers
        return [Sought(before, first), Sought(before, target.numbers, without=self._preferred)]
