"""The runs of several shards in the order in which reclaim takes them, as chains. Reads only.

Two layers: the order alone (names and scores, page by page, merged over all shards) and, a batch at a
time, what of these runs may go. So a look at the coldest of a thousand instances costs one page each.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from kvcm_platform.core.reclaim.order import TICK, Chain, Chains, RunView
from kvcm_platform.core.registry import InstanceEntry

from . import keyspace, uses
from .ages import Position, Run, page
from .run_views import Poisoned, Sought, look
from .shards import ShardRef, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

FIRST_PAGE = 32
BATCH = 64
"""Runs that are looked at together: about 1,024 blocks."""
MOST_OF_A_TICK = 4096
"""Runs of one tick that are kept together; the rest of a longer chain goes with what comes next."""
MOST_POISONED = 100
"""Runs that cannot be read of which a walk tells."""

_Ranked = tuple[int, Run]
"""A run and its level of recent uses."""


@dataclass(slots=True)
class _Order:
    """The recency order of one shard: what was read of it and not given out yet."""

    instance: InstanceEntry
    ref: ShardRef
    read: Position = field(default_factory=Position)
    waiting: deque[Run] = field(default_factory=deque)
    size: int = FIRST_PAGE
    is_over: bool = False

    def add(self, runs: Sequence[Run]) -> None:
        self.is_over = len(runs) < self.size
        if runs:
            self.read = Position(runs[-1].score, runs[-1].name)
        # Where runs moved meanwhile some of the last page come again.
        self.waiting += runs


class ColdestWalk:
    """`chains()` is the walk; `poisoned` are runs that could not be read, `looked_at` counts runs.

    `idle_before_ms`: only runs that were not used since. With `counts_uses` those that were used least
    lately come first, of equal ones the coldest.
    """

    def __init__(
        self,
        index: RedisIndex,
        instances: Iterable[InstanceEntry],
        sought: Sought,
        *,
        idle_before_ms: int | None = None,
        counts_uses: bool = False,
    ) -> None:
        self._index = index
        self._sought = sought
        self._idle_before_ms = idle_before_ms
        self._counts_uses = counts_uses
        self._orders = [_Order(entry, shard) for entry in instances for shard in shards_of(entry)]
        self._levels: dict[ShardRef, dict[bytes, int]] = {}
        self._chains = Chains()
        self.looked_at = 0
        self.poisoned: list[Poisoned] = []

    async def chains(self) -> AsyncIterator[Chain]:
        """Raises redis.RedisError."""
        if self._counts_uses:
            for order in self._orders:
                self._levels[order.ref] = await uses.levels(self._index, order.ref)
        batch: list[_Ranked] = []
        async for ranked in self._ranked():
            if len(batch) >= BATCH and not _is_one(batch[-1], ranked) or len(batch) >= MOST_OF_A_TICK:
                for chain in await self._look(batch):
                    yield chain
                batch = []
            batch.append(ranked)
        for chain in await self._look(batch):
            yield chain

    async def _look(self, batch: Sequence[_Ranked]) -> list[Chain]:
        self.looked_at += len(batch)
        # Of runs with an equal score some come twice, on both sides of a page's end.
        ranks = {(run.shard.instance_number, run.shard.shard, run.name): (level, run) for level, run in batch}
        views: list[RunView] = []
        runs = [run for _, run in ranks.values()]
        for at in range(0, len(runs), BATCH):
            looked = await look(self._index, runs[at : at + BATCH], self._sought)
            views += looked.views
            self.poisoned += looked.poisoned[: MOST_POISONED - len(self.poisoned)]
        if self._counts_uses:
            views = [replace(view, level=ranks[view.instance, view.shard, view.name][0]) for view in views]
        # `look` goes shard by shard.
        views.sort(key=lambda view: (view.level, view.score))
        found: list[Chain] = []
        for _, together in groupby(views, key=lambda view: (view.level, view.tick_ms)):
            found += self._chains.of(together)
        return found

    async def _ranked(self) -> AsyncIterator[_Ranked]:
        """All runs in their order."""
        later: list[tuple[int, int, int, Run]] = []
        async for run in self._merged():
            level = self._levels[run.shard].get(run.name, 0) if self._counts_uses else 0
            if level:
                later.append((level, run.score, len(later), run))
            else:
                yield 0, run
        later.sort()
        for level, _, _, run in later:
            yield level, run

    async def _merged(self) -> AsyncIterator[Run]:
        await self._begin()
        heap: list[tuple[int, int]] = []
        for number, order in enumerate(self._orders):
            if order.waiting:
                heapq.heappush(heap, (order.waiting[0].score, number))
        while heap:
            score, number = heapq.heappop(heap)
            if self._idle_before_ms is not None and score >= (self._idle_before_ms + 1) * TICK:
                return
            order = self._orders[number]
            yield order.waiting.popleft()
            if not order.waiting and not order.is_over:
                order.size = min(order.size * 4, self._index.connection.order_page)
                order.add(await page(self._index, order.instance, order.ref, order.read, order.size))
            if order.waiting:
                heapq.heappush(heap, (order.waiting[0].score, number))

    async def _begin(self) -> None:
        """The coldest of every shard."""
        commands = [
            ("ZRANGE", keyspace.recency(order.ref.base), 0, order.size - 1, "WITHSCORES")
            for order in self._orders
        ]
        replies = await self._index.connection.pipeline(commands) if commands else []
        for order, flat in zip(self._orders, replies, strict=True):
            order.add(
                [
                    Run(order.instance, order.ref, name, int(float(score)))
                    for name, score in zip(flat[::2], flat[1::2], strict=True)
                ]
            )


def _is_one(before: _Ranked, after: _Ranked) -> bool:
    """Whether both may belong to one chain."""
    return before[0] == after[0] and before[1].tick_ms == after[1].tick_ms
