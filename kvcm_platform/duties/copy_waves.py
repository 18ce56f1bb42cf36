"""One migration at work: wave after wave of the coldest (or hottest) runs, each block copied or let go.

Nothing is locked. A copy is a write session; its flip looks whether the source is still served, so
whatever removes, reclaims or moves the block meanwhile wins. A process that dies leaves sessions that
expire, and positions that lag behind.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from kvcm_platform.core import placement
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.migration import Direction, obstacle
from kvcm_platform.core.places import NoRoom
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Registry, StorageEntry
from kvcm_platform.core.removal import delete_delay_ms
from kvcm_platform.core.types import Retention
from kvcm_platform.duties.copy_bytes import CopyBytes, StorageTroubleError
from kvcm_platform.index import copying
from kvcm_platform.index.ages import HeldBlock, HeldRun, refreshed
from kvcm_platform.index.codec import StoredLocation
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.redis_index import RedisIndex

log = structlog.get_logger(__name__)

BATCH_BLOCKS = 256
BATCH_BYTES = 32 << 20
WAVE_BATCHES = 4
SESSION_MS = 120_000
"""A copy that takes longer has failed: longer than all its transfers may take together."""
MOST_FAILURES = 1024
"""A round in which so many blocks failed and none was copied is not worth going on with."""


class Stop(StrEnum):
    """Why a round of a migration ended."""

    DONE = "done"
    """What was wanted is moved, or nothing more is there to be moved."""
    TIME = "time"
    NO_ROOM = "no_room"
    STORAGE = "storage"
    FAILURES = "failures"
    CANCELLED = "cancelled"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Migration:
    """Blocks of some instances of a group that go from one storage to another."""

    name: str
    direction: Direction
    group: GroupEntry
    instances: tuple[InstanceEntry, ...]
    source: StorageEntry
    target: StorageEntry
    retention: Retention
    most_bytes: int | None = None
    """Bytes that have to move; None = all."""
    idle_before_ms: int | None = None
    """Only runs that were not used since (the index's ms)."""
    max_bytes_per_second: int = 0
    is_verified: bool = True
    is_cooled: bool = False
    """Whether the uses of what was moved count anew."""


@dataclass(slots=True)
class Tally:
    """What a round did. `there` = blocks that the target had already; `skipped` = busy or gone meanwhile."""

    copied_blocks: int = 0
    copied_bytes: int = 0
    there_blocks: int = 0
    there_bytes: int = 0
    skipped_blocks: int = 0
    failed_blocks: int = 0
    stop: Stop = Stop.DONE
    detail: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why blocks failed, the first few kinds."""

    @property
    def moved_bytes(self) -> int:
        return self.copied_bytes + self.there_bytes

    @property
    def has_done_anything(self) -> bool:
        return bool(self.copied_blocks or self.there_blocks or self.failed_blocks)

    def fail(self, reason: str, count: int = 1) -> None:
        self.failed_blocks += count
        if reason in self.reasons or len(self.reasons) < 10:
            self.reasons[reason] = self.reasons.get(reason, 0) + count


Progress = Callable[[Migration, Tally], Awaitable[bool]]
"""Told after each wave; False = the migration was cancelled."""


@dataclass(slots=True)
class _Work:
    """What a wave has to do."""

    runs: list[HeldRun] = field(default_factory=list)
    copies: dict[str, list[HeldBlock]] = field(default_factory=lambda: defaultdict(list))
    sheds: dict[str, list[tuple[HeldBlock, StoredLocation]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    size: int = 0
    blocks: int = 0


class Waves:
    """Carries one migration out, for as long as a round lasts."""

    def __init__(
        self,
        index: RedisIndex,
        read_registry: Callable[[], Awaitable[Registry]],
        transfers: CopyBytes,
        migration: Migration,
        deadline: float,
        progress: Progress,
    ) -> None:
        self._index = index
        self._read_registry = read_registry
        self._bytes = transfers
        self._what = migration
        self._deadline = deadline
        self._progress = progress
        self._instances = {entry.instance_id: entry for entry in migration.instances}
        self._target_numbers = migration.target.numbers
        self._trouble: tuple[Stop, str] | None = None
        self._changed: list[HeldBlock] = []
        """Blocks of this wave that were not as they had been seen."""
        self.tally = Tally()
        self.owed_seconds = 0.0
        """What the limit still asks to wait at the end of the round."""

    async def run(
        self, runs: AsyncIterator[HeldRun], deal_with: Callable[[Sequence[HeldRun]], Awaitable[None]]
    ) -> Tally:
        """`deal_with` is told of the runs of each wave that went through."""
        try:
            self._end(*await self._all(runs, deal_with))
        except Fenced:
            self._end(Stop.FENCED, "another process has taken over")
        return self.tally

    def _end(self, stop: Stop, detail: str = "") -> None:
        self.tally.stop, self.tally.detail = stop, detail

    async def _all(
        self, runs: AsyncIterator[HeldRun], deal_with: Callable[[Sequence[HeldRun]], Awaitable[None]]
    ) -> tuple[Stop, str]:
        work = _Work()
        async for held in runs:
            if self._is_recent(held):
                break
            self._add(work, held)
            is_full = work.size >= self._wave_bytes() or work.blocks >= BATCH_BLOCKS * WAVE_BATCHES
            if not is_full and not self._is_enough(work):
                continue
            stop = await self._wave(work, deal_with)
            if stop is not None:
                return stop
            if self._is_enough(_Work()):
                return Stop.DONE, ""
            work = _Work()
        return await self._wave(work, deal_with) or (Stop.DONE, "")

    def _is_recent(self, held: HeldRun) -> bool:
        before = self._what.idle_before_ms
        return before is not None and held.run.tick_ms > before

    def _wave_bytes(self) -> int:
        limit = self._what.max_bytes_per_second
        return min(BATCH_BYTES * WAVE_BATCHES, limit or BATCH_BYTES * WAVE_BATCHES)

    def _is_enough(self, work: _Work) -> bool:
        most = self._what.most_bytes
        return most is not None and self.tally.moved_bytes + work.size >= most

    def _add(self, work: _Work, held: HeldRun) -> None:
        work.runs.append(held)
        for block in held.blocks:
            self._add_block(work, block)

    def _add_block(self, work: _Work, block: HeldBlock) -> None:
        name = block.run.instance.instance_id
        other = copying.covering(block, self._target_numbers)
        if other is not None:
            work.sheds[name].append((block, other))
        elif copying.is_on_its_way(block, self._target_numbers):
            self.tally.skipped_blocks += 1
            return
        else:
            work.copies[name].append(block)
        work.size += block.location.size
        work.blocks += 1

    async def _wave(
        self, work: _Work, deal_with: Callable[[Sequence[HeldRun]], Awaitable[None]]
    ) -> tuple[Stop, str] | None:
        """Why the round ends with it; None = it goes on."""
        if not work.runs:
            return None
        began = time.monotonic()
        await self._carry_out(work)
        # A block that changed since it was looked at, as by the copy of its other part, has a second try.
        changed, self._changed = self._changed, []
        again = _Work()
        for block in await refreshed(self._index, changed):
            self._add_block(again, block)
        self.tally.skipped_blocks += len(changed) - again.blocks
        await self._carry_out(again)
        self.tally.skipped_blocks += len(self._changed)
        self._changed = []
        if self._trouble is None:
            await deal_with(work.runs)
        if not await self._progress(self._what, self.tally):
            return Stop.CANCELLED, ""
        return self._trouble or await self._pause(work.size, time.monotonic() - began)

    async def _carry_out(self, work: _Work) -> None:
        limit = asyncio.Semaphore(WAVE_BATCHES)

        async def bounded(batch: Awaitable[None]) -> None:
            async with limit:
                await batch

        batches: list[Awaitable[None]] = []
        for name, blocks in work.copies.items():
            parts, repeated = _batches(blocks)
            self._changed += repeated
            batches += [self._copy(self._instances[name], part) for part in parts]
        batches += [self._shed(self._instances[name], pairs) for name, pairs in work.sheds.items()]
        for result in await asyncio.gather(*map(bounded, batches), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _pause(self, size: int, seconds: float) -> tuple[Stop, str] | None:
        """Keeps to the limit of bytes a second; the next round begins where this one ends for it."""
        if self.tally.failed_blocks > MOST_FAILURES and not self.tally.copied_blocks:
            return Stop.FAILURES, "; ".join(self.tally.reasons)
        limit = self._what.max_bytes_per_second
        wait = size / limit - seconds if limit else 0.0
        if time.monotonic() + max(wait, 0.0) > self._deadline:
            self.owed_seconds = max(wait, 0.0)
            return Stop.TIME, ""
        if wait > 0:
            await asyncio.sleep(wait)
        return None

    async def _job(self, instance: InstanceEntry) -> copying.CopyJob | None:
        """By the registry of this moment; None where a storage may not be used any more.

        A round lasts longer than it takes to remove an empty storage: what is copied there after
        that nobody serves and nobody removes.
        """
        what, registry = self._what, await self._read_registry()
        source, target = (registry.storages.get(one.name) for one in (what.source, what.target))
        reason = obstacle(source, target, (what.source.name, what.target.name))
        for now, before in ((source, what.source), (target, what.target)):
            if now is not None and now.number != before.number:
                reason = f"{before.name}: was removed, and another has its name"
        if reason or target is None:
            self._trouble = (Stop.STORAGE, reason)
            return None
        return copying.CopyJob(
            instance=instance,
            group=what.group,
            target=target,
            serving=placement.serving(registry, what.group),
            is_move=what.retention is Retention.DELETE_SOURCE,
            delay_ms=delete_delay_ms(what.group),
            timeout_ms=SESSION_MS,
        )

    async def _shed(self, instance: InstanceEntry, pairs: Sequence[tuple[HeldBlock, StoredLocation]]) -> None:
        job = await self._job(instance)
        if job is None:
            return
        served = [(block, other) for block, other in pairs if other.storage_number in job.serving.numbers]
        if not job.is_move:
            self.tally.there_blocks += len(served)
            self.tally.there_bytes += sum(block.location.size for block, _ in served)
            return
        try:
            count, size = await copying.shed(self._index, instance, served, job.delay_ms)
        except DomainError as error:
            self._trouble = (Stop.STORAGE, error.message)
            return
        self.tally.there_blocks += count
        self.tally.there_bytes += size
        self.tally.skipped_blocks += len(pairs) - count

    async def _copy(self, instance: InstanceEntry, blocks: Sequence[HeldBlock]) -> None:
        if self._trouble is not None:
            return
        job = await self._job(instance)
        if job is None:
            return
        try:
            copy = await copying.open_copy(self._index, job, blocks)
        except DomainError as error:
            has_no_room = error.code is Code.CAPACITY or isinstance(error, NoRoom)
            stop = Stop.NO_ROOM if has_no_room else Stop.STORAGE
            self._trouble = (stop, error.message)
            return
        placed = {block.key for block in copy.blocks}
        self._changed += [block for block in blocks if block.key not in placed]
        if copy.blocks:
            await self._carry_over(copy)

    async def _carry_over(self, copy: copying.OpenCopy) -> None:
        try:
            reasons = await self._move(copy)
        except StorageTroubleError as error:
            self._trouble = (Stop.STORAGE, str(error))
            await copying.give_up(self._index, copy)
            return
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(copying.give_up(self._index, copy)))
            raise
        try:
            served = await copying.finish_copy(self._index, copy, [not reason for reason in reasons])
        except DomainError as error:
            self.tally.fail(error.message, len(copy.blocks))
            return
        for block, reason, is_served in zip(copy.blocks, reasons, served, strict=True):
            if reason:
                self.tally.fail(reason)
            elif is_served:
                self.tally.copied_blocks += 1
                self.tally.copied_bytes += block.location.size
            else:
                self.tally.skipped_blocks += 1
        if self._what.is_cooled:
            await copying.cooled(self._index, copy.blocks)

    async def _move(self, copy: copying.OpenCopy) -> list[str]:
        """One reason a block: that of its first part that is not there."""
        pairs = [
            (uri, place[1])
            for block, places in zip(copy.blocks, copy.places, strict=True)
            for (_, uri), place in zip(block.location.specs(), places, strict=True)
        ]
        answers = iter(
            await self._bytes.move(
                self._what.source.name, self._what.target.name, pairs, is_verified=self._what.is_verified
            )
        )
        return [next(filter(None, [next(answers) for _ in places]), "") for places in copy.places]


def _batches(blocks: Iterable[HeldBlock]) -> tuple[list[list[HeldBlock]], list[HeldBlock]]:
    """Parts of bounded blocks and bytes, and blocks that come a second time."""
    parts: list[list[HeldBlock]] = []
    repeated: list[HeldBlock] = []
    size, keys = 0, set[int]()
    for block in blocks:
        if block.key in keys:
            repeated.append(block)
            continue
        if not parts or len(parts[-1]) >= BATCH_BLOCKS or size + block.location.size > BATCH_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(block)
        keys.add(block.key)
        size += block.location.size
    return parts, repeated
