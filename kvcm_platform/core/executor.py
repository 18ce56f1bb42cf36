"""Carries out deletions of many shards at once, so that no storage keeps another waiting.

Each storage has a lane: a few chunks at a time, and a back-off (`core.back_off`) once it refuses.
What cannot be tried now is set aside on its list, where it is in nobody's way and costs nothing until
the storage is tried again, first with a few deletions. A storage that does not answer in time keeps
the chunks it has; whatever else is due there is set aside, too.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .back_off import NO_BACK_OFF, BackOff
from .deletion import (
    UNKNOWN_STORAGE,
    BackOffs,
    Deleter,
    DeletionReport,
    ObjectRefused,
    PendingDeletion,
    PendingList,
)

CHUNK = 512
"""Deletions that a storage gets together."""
AT_ONCE = 2
"""Chunks on one storage at a time."""
TRIAL = 32
"""Deletions with which a storage is tried that refused before."""
PATIENCE_SECONDS = 1.0
"""A shard waits so long for a storage that says nothing, then goes on without it."""
LONGEST_SECONDS = 3.0
"""And so long for one that goes on slowly."""
RETRY_MS = 30_000
RETRY_JITTER_MS = 30_000
"""What is refused while its storage frees others is tried again so much later."""


@dataclass(slots=True)
class _Lane:
    """What is known of one storage in this run."""

    number: int
    back_off: BackOff
    chunks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    answered_at: float = field(default_factory=time.monotonic)
    late: set[asyncio.Task[None]] = field(default_factory=set)
    """Work that no shard waits for any more."""

    @property
    def is_busy(self) -> bool:
        self.late = {work for work in self.late if not work.done()}
        return bool(self.late)


class Executor:
    """Deletions of one run. `end` must be called; nothing of it goes on after that."""

    def __init__(
        self,
        deleter_of: Callable[[int], Deleter | str],
        back_offs: BackOffs,
        now_ms: Callable[[], int],
        report: DeletionReport,
    ) -> None:
        """`deleter_of` gives a storage's deleter, or the reason why it cannot be used now.

        A storage that is not configured any more leaves orphans. `now_ms` is the index's clock.
        """
        self._deleter_of = deleter_of
        self._back_offs = back_offs
        self._now_ms = now_ms
        self._report = report
        self._lanes: dict[int, _Lane] = {}
        self._all_late: set[asyncio.Task[None]] = set()

    async def take(self, pending: PendingList, limit: int) -> int:
        """Deals with up to `limit` due deletions of a shard; returns how many it took from the list.

        Where none is due those are taken that will be in a moment: their marks become durable meanwhile.
        """
        taken, ready_at = await pending.due(limit), 0.0
        if not taken:
            taken, ready_at = await pending.soon(limit)
        if not taken:
            return 0
        await pending.durable()
        await asyncio.sleep(max(0.0, ready_at - time.monotonic()))
        by_storage: dict[int, list[PendingDeletion]] = defaultdict(list)
        for deletion in taken:
            by_storage[deletion.storage_number].append(deletion)
        works: dict[asyncio.Task[None], _Lane] = {}
        for number, deletions in by_storage.items():
            lane = await self._lane(number)
            works[asyncio.create_task(self._delete_on(pending, lane, deletions))] = lane
        for work in await self._waited_for(works):
            lane = works[work]
            await pending.set_aside([one.handle for one in by_storage[lane.number]], lane.number)
        return len(taken)

    async def resume(self, waiting: Mapping[int, Sequence[PendingList]], deadline: float) -> None:
        """Begins to try storages again for which something is set aside, by their numbers.

        Those that may be tried now are gone through list by list until one refuses or the deadline
        (time.monotonic) has passed; `is_busy` says whether any of this is under way.
        """
        for number, lists in waiting.items():
            lane, deleter = await self._lane(number), self._deleter_of(number)
            if lane.is_busy:
                continue
            if isinstance(deleter, str) and deleter != UNKNOWN_STORAGE:
                # It is known to be away. When it is back it is tried at once.
                self._report.refused_on[number] = deleter
                await self._note(lane, NO_BACK_OFF)
            elif not lane.back_off.is_waiting(self._now_ms()):
                work = asyncio.create_task(self._drain(lane, lists, deadline))
                self._keep(work, lane)

    @property
    def is_busy(self) -> bool:
        """Whether storages have work that no shard waits for. Raises what such work ended with."""
        for work in [one for one in self._all_late if one.done()]:
            self._all_late.discard(work)
            work.result()
        return bool(self._all_late)

    async def wait(self, seconds: float) -> None:
        """Returns when some of that work has ended, or the time is up."""
        if self._all_late:
            await asyncio.wait(self._all_late, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Lets go of what is still under way. A storage that keeps silent by then has refused."""
        late, self._all_late = self._all_late, set()
        for work in late:
            work.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for lane in self._lanes.values():
            silent = time.monotonic() - lane.answered_at
            if any(work in late and work.cancelled() for work in lane.late) and silent > PATIENCE_SECONDS:
                why = f"no answer within {silent:.0f} s"
                self._report.refused_on[lane.number] = why
                await self._note(lane, lane.back_off.failed(self._now_ms(), random.random()))  # noqa: S311

    def _keep(self, work: asyncio.Task[None], lane: _Lane) -> None:
        lane.late.add(work)
        self._all_late.add(work)

    async def _waited_for(self, works: Mapping[asyncio.Task[None], _Lane]) -> set[asyncio.Task[None]]:
        """Waits for a shard's deletions; returns the work of storages that take too long."""
        began, left = time.monotonic(), set(works)
        try:
            while left:
                done, left = await asyncio.wait(left, timeout=PATIENCE_SECONDS / 4)
                for work in done:
                    work.result()
                now = time.monotonic()
                last = [max(works[work].answered_at, began) for work in left]
                if now - began > LONGEST_SECONDS or (last and now - max(last) > PATIENCE_SECONDS):
                    break
        finally:
            for work in left:
                self._keep(work, works[work])
        return left

    async def _lane(self, number: int) -> _Lane:
        if number not in self._lanes:
            back_off = await self._back_offs.read(number)
            self._lanes.setdefault(number, _Lane(number, back_off))
        return self._lanes[number]

    async def _note(self, lane: _Lane, back_off: BackOff) -> None:
        if lane.back_off != back_off:
            lane.back_off = back_off
            await self._back_offs.write(lane.number, back_off)

    async def _drain(self, lane: _Lane, lists: Sequence[PendingList], deadline: float) -> None:
        for pending in lists:
            while time.monotonic() < deadline:
                limit = TRIAL if lane.back_off.failures else CHUNK * AT_ONCE
                batch = await pending.aside(lane.number, limit)
                if not batch:
                    break
                await pending.durable()
                await self._delete_on(pending, lane, batch, is_waited_for=False)
                if lane.back_off.is_waiting(self._now_ms()):
                    return

    async def _delete_on(
        self,
        pending: PendingList,
        lane: _Lane,
        deletions: Sequence[PendingDeletion],
        *,
        is_waited_for: bool = True,
    ) -> None:
        """Deletions of one shard on one storage. `is_waited_for`: a shard waits, so none stands in line."""
        deleter = self._deleter_of(lane.number)
        rest = await self._without_orphans(pending, deleter, deletions)
        if not rest:
            return
        if isinstance(deleter, str):
            self._refused(lane, [deleter] * len(rest))
            await self._set_aside(pending, lane, rest)
        elif (is_waited_for and lane.is_busy) or lane.back_off.is_waiting(self._now_ms()):
            await self._set_aside(pending, lane, rest)
        else:
            chunks = [rest[at : at + CHUNK] for at in range(0, len(rest), CHUNK)]
            attempts = [asyncio.ensure_future(self._attempt(pending, lane, deleter, one)) for one in chunks]
            try:
                await asyncio.gather(*attempts)
            finally:
                for attempt in attempts:
                    attempt.cancel()
                await asyncio.gather(*attempts, return_exceptions=True)

    async def _without_orphans(
        self, pending: PendingList, deleter: Deleter | str, deletions: Sequence[PendingDeletion]
    ) -> list[PendingDeletion]:
        """Settles what no storage is asked for; returns the rest."""
        orphans: list[PendingDeletion] = []
        rest: list[PendingDeletion] = []
        settled: list[PendingDeletion] = []
        for deletion in deletions:
            if deletion.is_orphan:
                orphans.append(deletion)
            elif deleter != UNKNOWN_STORAGE:
                rest.append(deletion)
            else:
                # What was freed once is no orphan: only a late writer may have left something.
                (settled if deletion.is_second_pass else orphans).append(deletion)
        if settled:
            await pending.done([one.handle for one in settled])
        if orphans:
            await pending.orphan(orphans)
            self._report.orphaned += len(orphans)
        return rest

    async def _attempt(
        self, pending: PendingList, lane: _Lane, deleter: Deleter, deletions: Sequence[PendingDeletion]
    ) -> None:
        async with lane.chunks:
            before = lane.back_off
            if before.is_waiting(self._now_ms()):
                await self._set_aside(pending, lane, deletions)
                return
            reasons = await _delete_objects(deleter, deletions)
            lane.answered_at = time.monotonic()
        gone = [one for one, reason in zip(deletions, reasons, strict=True) if not reason]
        kept = [one for one, reason in zip(deletions, reasons, strict=True) if reason]
        if gone:
            await self._note(lane, NO_BACK_OFF)
            await pending.done([one.handle for one in gone], are_left=deleter.leaves_objects)
            self._report.deleted += len(gone)
            self._report.deleted_on[lane.number] = self._report.deleted_on.get(lane.number, 0) + len(gone)
            await deleter.settled([item for one in gone for item in one.objects])
        if not kept:
            return
        self._refused(lane, [reason for reason in reasons if reason])
        if gone or all(isinstance(reason, ObjectRefused) for reason in reasons):
            delay_ms = RETRY_MS + random.randrange(RETRY_JITTER_MS)  # noqa: S311
            await pending.postpone([one.handle for one in kept], delay_ms)
            self._report.postponed += len(kept)
            return
        if lane.back_off == before:
            # Of chunks that were under way together the first one tells.
            await self._note(lane, before.failed(self._now_ms(), random.random()))  # noqa: S311
        await self._set_aside(pending, lane, kept)

    async def _set_aside(
        self, pending: PendingList, lane: _Lane, deletions: Sequence[PendingDeletion]
    ) -> None:
        await pending.set_aside([one.handle for one in deletions], lane.number)
        self._report.postponed += len(deletions)

    def _refused(self, lane: _Lane, reasons: Sequence[str]) -> None:
        self._report.refused_on[lane.number] = str(reasons[0])
        for reason in reasons:
            self._report.reasons[reason] = self._report.reasons.get(reason, 0) + 1


async def _delete_objects(deleter: Deleter, deletions: Sequence[PendingDeletion]) -> list[str]:
    """One reason per deletion: that of its first object that could not be freed."""
    flat = [item for deletion in deletions for item in deletion.objects]
    answers = iter(await deleter.delete(flat))
    return [next(filter(None, [next(answers) for _ in deletion.objects]), "") for deletion in deletions]
