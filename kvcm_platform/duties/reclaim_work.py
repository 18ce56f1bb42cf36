"""One reclaim run at work: plan, mark a step, measure again, until nothing more has to go."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.order import Pick
from kvcm_platform.core.reclaim.plan import Plan
from kvcm_platform.core.reclaim.runs import Stop, share_add
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Registry
from kvcm_platform.core.removal import delete_delay_ms
from kvcm_platform.duties.reclaim_choice import PLAN_BLOCKS, Choice, Target
from kvcm_platform.duties.reclaim_hold import Hold
from kvcm_platform.index import served
from kvcm_platform.index.ages import Run
from kvcm_platform.index.evicting import Victim, evict
from kvcm_platform.index.reclaim_book import ReclaimBook
from kvcm_platform.index.shards import ShardRef

log = structlog.get_logger(__name__)

STEP_BLOCKS = 4096
MOST_STEP_BLOCKS = 1 << 15
"""However large a step is set, usage is measured again after so many blocks."""
TELL_SECONDS = 0.25
"""How often a run under way is put on record."""


@dataclass(slots=True)
class GroupPlace:
    """Whose blocks, and with what."""

    registry: Registry
    group: GroupEntry
    instances: Sequence[InstanceEntry]
    hold: Hold
    book: ReclaimBook
    poisoned: list[tuple[Run, str]] = field(default_factory=list)
    """Runs that could not be read."""
    marked_blocks: int = 0
    marked_bytes: int = 0
    deadline: float = 0.0

    @property
    def delay_ms(self) -> int:
        return delete_delay_ms(self.group)


class RunWork:
    """`targets` tells what has still to go, measured anew each time: an empty list ends the run."""

    def __init__(
        self, place: GroupPlace, run: OpenRun, targets: Callable[[], Awaitable[Sequence[Target]]]
    ) -> None:
        self.run = run
        self._place = place
        self._index = place.hold.index
        self._targets = targets
        self._choice = Choice(self._index, place.registry, place.group, place.instances)
        self._entries = {entry.number: entry for entry in place.instances}
        self._storages = place.registry.storage_by_number()
        self._told_at = 0.0
        self._plan = Plan()
        self._planned_for: tuple[str, str] | None = None
        self._marked_of_plan = 0
        self.is_begun = run.report.began_ms > 0

    async def go(self) -> Stop | None:
        """Why it ended; None = the time was up. Raises redis.RedisError, of which the next round knows."""
        began = time.monotonic()
        try:
            return await self._go()
        finally:
            self.run.report.busy_ms += round((time.monotonic() - began) * 1000)

    async def _go(self) -> Stop | None:
        place, report = self._place, self.run.report
        exhausted: set[tuple[str, str]] = set()
        report.rounds += 1
        while True:
            await place.hold.keep()
            if self.is_begun and await place.book.is_cancelled(self.run):
                return Stop.CANCELLED
            wanted = await self._targets()
            open_ = [target for target in wanted if target.name not in exhausted]
            if not open_:
                # Without an amount the run was for all there is.
                is_enough = all(target.amount is None for target in wanted)
                return Stop.ENOUGH if is_enough else Stop.NOTHING_LEFT
            if time.monotonic() > place.deadline:
                return None
            target = open_[0]
            if self._planned_for != target.name or not self._plan.picks:
                if self._planned_for == target.name and (self._plan.is_all or not self._marked_of_plan):
                    exhausted.add(target.name)
                    self._planned_for = None
                    continue
                await self._make_plan(target)
                if not self._plan.picks:
                    exhausted.add(target.name)
                    self._planned_for = None
                    continue
            await self._begin()
            await self._step(target)

    async def _make_plan(self, target: Target) -> None:
        self._plan = await self._choice.plan(target, PLAN_BLOCKS)
        self._planned_for, self._marked_of_plan = target.name, 0
        self._place.poisoned += [(one.run, one.reason) for one in self._choice.poisoned]
        report = self.run.report
        report.planned_blocks = max(report.planned_blocks, report.chosen_blocks + self._plan.blocks)
        report.planned_bytes = max(report.planned_bytes, report.chosen_bytes + self._plan.size)

    async def _begin(self) -> None:
        """Puts the run on record before its first block is marked."""
        if self.is_begun:
            return
        # Planning may have taken long: what another holder has put on record must not be written over.
        await self._place.hold.keep(now=True)
        self.is_begun = True
        self.run.report.began_ms = self._index.now_ms()
        await self.tell()

    async def tell(self) -> None:
        """Puts the run on record as it is now. Raises Fenced when that is another's to do by now."""
        await self._place.hold.keep()
        self._told_at = time.monotonic()
        await self._place.book.save(self.run)
        await self._place.book.report(self.run.report)

    def _step_blocks(self) -> int:
        reclaim = self._place.group.reclaim
        blocks = STEP_BLOCKS
        if reclaim.step_size > 0:
            blocks = reclaim.step_size
        elif reclaim.step_percentage > 0:
            evictable, _ = served.total(self._choice.served)
            blocks = max(1, evictable * reclaim.step_percentage // 100)
        return min(blocks, MOST_STEP_BLOCKS)

    async def _step(self, target: Target) -> None:
        picks = self._take(target, self._step_blocks())
        by_shard: dict[tuple[int, int], list[Pick]] = {}
        for one in picks:
            by_shard.setdefault((one.run.instance, one.run.shard), []).append(one)
        try:
            for (instance, shard), part in by_shard.items():
                await self._place.hold.keep()
                await self._evict(target, self._entries[instance], shard, part)
        finally:
            await self._index.pusher.flush()
        if time.monotonic() - self._told_at > TELL_SECONDS:
            await self.tell()

    def _take(self, target: Target, most: int) -> list[Pick]:
        """The next picks of the plan, as many as the target still needs."""
        left, taken, count = target.amount, list[Pick](), 0
        picks = self._plan.picks
        while picks and count < most and (left is None or left > 0):
            one = picks[0]
            blocks = min(one.blocks, most - count)
            if left is not None:
                needed, worth = 0, 0
                while needed < blocks and worth < left:
                    worth += 1 if target.in_blocks else one.run.sizes[needed]
                    needed += 1
                blocks, left = needed, left - worth
            if blocks < one.blocks:
                now, picks[0] = one.split(blocks)
            else:
                now = one
                picks.pop(0)
            taken.append(now)
            count += now.blocks
        return taken

    async def _evict(self, target: Target, entry: InstanceEntry, shard: int, picks: Sequence[Pick]) -> None:
        ref = ShardRef(entry.number, shard, entry.group_number)
        runs = {one.run.name: Run(entry, ref, one.run.name, one.run.score) for one in picks}
        evicted = await evict(
            self._index,
            ref,
            [Victim(runs[one.run.name], one.blocks) for one in picks],
            run_id=self.run.id,
            delay_ms=self._place.delay_ms,
            written_before_ms=self._choice.written_before_ms,
            numbers=target.numbers,
        )
        self._place.poisoned += [(runs[name], reason) for name, reason in evicted.poisoned if name in runs]
        if not evicted.blocks:
            return
        if self.run.errors:
            self.run.errors, self.run.report.detail = 0, ""
        self._marked_of_plan += evicted.blocks
        self._place.marked_blocks += evicted.blocks
        self._place.marked_bytes += evicted.size
        report = self.run.report
        report.chosen_blocks += evicted.blocks
        report.chosen_bytes += evicted.size
        share_add(report.by_instance, entry.instance_id, evicted.blocks, evicted.size)
        share_add(self.run.numbers, entry.number, evicted.blocks, evicted.size)
        for number, (blocks, size) in evicted.by_number.items():
            storage = self._storages.get(number)
            share_add(report.by_storage, storage.name if storage else f"#{number}", blocks, size)
            if storage is not None and storage.name in self.run.storages:
                self.run.storages[storage.name] -= size
        ticks = [one.run.tick_ms for one in picks if one.run.name not in evicted.used_meanwhile]
        if ticks:
            report.oldest_use_ms = min(report.oldest_use_ms or ticks[0], *ticks)
            report.newest_use_ms = max(report.newest_use_ms, *ticks)

    async def end(self, stop: Stop, used_after: int) -> None:
        """It chooses no more; what it marked waits for its deletion."""
        await self._place.hold.keep()
        report = self.run.report
        report.choose_no_more(stop, self._index.now_ms())
        report.used_after_bytes = used_after
        await self._place.book.settle(self.run)
        await self._place.book.report(report)
