"""Rounds of reclaim: every group that is over a mark, or of which somebody wants room, gives blocks back.

One process at a time works on a group; groups do not wait for each other, and one that fails is noted
and left for the next round. Nothing here knows the database: what became of runs goes to the stream
`kvcm:reclaim:reports`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core.reclaim.marks import ReclaimUsage, Subject, demands
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport, RunState, Stop
from kvcm_platform.core.registry import GroupEntry
from kvcm_platform.duties.reclaim_age import is_aged
from kvcm_platform.duties.reclaim_group import MOST_ERRORS, GroupTask, GroupWork
from kvcm_platform.duties.reclaim_hold import reclaim_hold
from kvcm_platform.duties.reclaim_removed import end_removed
from kvcm_platform.duties.reclaim_settling import account, is_reachable, settle
from kvcm_platform.duties.reclaim_troubles import Troubles
from kvcm_platform.duties.reclaim_work import GroupPlace
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import keyspace, waking
from kvcm_platform.index.connection import Fenced, each_to_its_end
from kvcm_platform.index.held_bytes import read_usage
from kvcm_platform.index.reclaim_book import Book, ReclaimBook
from kvcm_platform.index.waking import Refusals

log = structlog.get_logger(__name__)

ROUND_SECONDS = 20.0
SLICE_SECONDS = 5.0
"""A group whose work takes longer lets others have their turn."""
UNREADABLE = (RedisError, ValueError, KeyError, TypeError)
"""What the reading of usage raises: no answer, or one that makes no sense."""
AT_ONCE = 4
"""Groups that are worked on side by side."""


@dataclass(slots=True)
class ReclaimSummary:
    """What a round did.

    `marked_*`: by group name [blocks, bytes]. `due_in_ms`: when the first of them may be deleted; None =
    nothing was marked. `is_unfinished`: more was to be done than the time allowed. `failures`: groups of
    which something failed (see RECLAIM_TROUBLES). `ended`: runs that chose their last block.
    """

    marked: dict[str, list[int]] = field(default_factory=dict)
    due_in_ms: int | None = None
    is_unfinished: bool = False
    failures: int = 0
    ended: int = 0
    settled: int = 0

    @property
    def marked_blocks(self) -> int:
        return sum(blocks for blocks, _ in self.marked.values())

    @property
    def marked_bytes(self) -> int:
        return sum(size for _, size in self.marked.values())


async def reclaim_round(
    session: IndexSession, seconds: float = ROUND_SECONDS, *, is_home: bool = False
) -> ReclaimSummary:
    """One round over all groups. `is_home`: the index is this process's own.

    Raises redis.RedisError when what is to be done cannot be read.
    """
    return await Round(session, seconds, is_home=is_home).run()


class Round:
    def __init__(self, session: IndexSession, seconds: float, *, is_home: bool) -> None:
        self._session = session
        self._index = session.index
        self._book = ReclaimBook(session.index.connection)
        self._deadline = time.monotonic() + seconds
        self._is_home = is_home
        self._known = Book()
        self._troubles = Troubles(session, self._book, {})
        self.summary = ReclaimSummary()

    async def run(self) -> ReclaimSummary:
        if not self._is_home:
            # A wake from here on causes another round.
            await self._index.connection.call("DEL", keyspace.RECLAIM_QUEUED)
        refused = await waking.refusals(self._index.connection)
        self._known = await self._book.read()
        self._troubles = Troubles(self._session, self._book, self._known.troubles)
        await self._book.forget_cancels(self._known.cancels - self._known.ids())
        usage = await self._read_usage()
        waiting = deque(await self._tasks(usage, refused))
        await each_to_its_end([self._work(waiting) for _ in range(min(AT_ONCE, len(waiting)))])
        self.summary.is_unfinished |= bool(waiting)
        if not self._is_home:
            self.summary.settled += await end_removed(self._session, self._book, self._known, refused)
        self.summary.failures = self._troubles.count
        return self.summary

    async def _work(self, waiting: deque[GroupTask]) -> None:
        while waiting and time.monotonic() < self._deadline:
            task = waiting.popleft()
            if not await self._guarded(task) and time.monotonic() < self._deadline:
                refreshed = await self._again(task)
                if refreshed is not None:
                    waiting.append(refreshed)

    # What there is to do.

    def _is_mine(self, group: GroupEntry) -> bool:
        """A process works on the groups of which its index holds an instance; on empty ones, control's."""
        if group.number in self._session.cut_off:
            return False
        if self._session.instances_of(group.name):
            return True
        return not self._is_home and not self._session.registry.instances_of(group.name)

    async def _read_usage(self) -> ReclaimUsage:
        """Of all groups; one that cannot be read is left out, and shows as a trouble."""
        connection = self._index.connection
        try:
            return await read_usage(connection, self._session.group_numbers)
        except UNREADABLE:
            usage = ReclaimUsage()
        for number in self._session.group_numbers:
            try:
                usage = usage.updated(await read_usage(connection, [number]), [number])
            except UNREADABLE as error:
                log.warning("the usage of a group cannot be read", group=number, reason=repr(error))
        return usage

    async def _tasks(self, usage: ReclaimUsage, refused: Refusals) -> list[GroupTask]:
        found = []
        settling = {run.group_number for run in self._known.settling.values()}
        for group in self._session.registry.groups.values():
            if not self._is_mine(group):
                continue
            try:
                task = await self._task(group, usage, refused.get(group.name, {}))
            except Exception as error:
                log.exception("what is over its marks cannot be told", group=group.name)
                await self._troubles.failed(group.name, error)
                continue
            if task.has_work or group.number in settling:
                found.append(task)
            else:
                await self._troubles.clear(group.name)
        return found

    async def _task(
        self, group: GroupEntry, usage: ReclaimUsage, refused: Mapping[Subject, int]
    ) -> GroupTask:
        task = GroupTask(
            group=group,
            instances=self._session.instances_of(group.name),
            usage=usage,
            demands=demands(self._session.registry, group, usage, refused=refused),
            refused=refused,
            runs=[run for run in self._known.open.values() if run.group_number == group.number],
            requests=[one for one in self._known.requests.values() if self._is_for(one, group)],
        )
        if refused and not task.demands:
            await waking.refusals_forget(self._index.connection, group.name, refused)
        task.is_aged = await is_aged(self._index, task, self._known)
        return task

    def _is_for(self, request: ReclaimRequest, group: GroupEntry) -> bool:
        if request.group != group.name:
            return False
        entry = self._session.registry.instances.get(request.instance_id)
        return entry is None or entry.number not in self._session.away

    async def _again(self, task: GroupTask) -> GroupTask | None:
        """What is left of a task after its slice of time."""
        known = await self._book.read()
        task.runs = [run for run in known.open.values() if run.group_number == task.group.number]
        task.requests = [one for one in known.requests.values() if self._is_for(one, task.group)]
        task.is_aged = False
        return task if task.has_work else None

    # One group.

    async def _guarded(self, task: GroupTask) -> bool:
        """True when nothing is left to be done now. Whatever it raises is this group's alone."""
        try:
            async with reclaim_hold(self._index, task.group.number) as hold:
                if hold is None:
                    return True
                await self._refresh(task)
                place = GroupPlace(
                    *(self._session.registry, task.group, task.instances, hold, self._book),
                    deadline=min(self._deadline, time.monotonic() + SLICE_SECONDS),
                )
                return await self._reclaim(place, task)
        except Fenced as error:
            log.warning("reclaim was taken over", group=task.group.name, reason=str(error))
        except Exception as error:
            log.exception("a group's blocks cannot be reclaimed", group=task.group.name)
            await self._troubles.failed(task.group.name, error)
        return True

    async def _refresh(self, task: GroupTask) -> None:
        """The group's runs and requests as whoever had the lease before has left them."""
        group = task.group
        await self._book.refresh(self._known, group.number, group.name)
        task.runs = [run for run in self._known.open.values() if run.group_number == group.number]
        task.requests = [one for one in task.requests if one.id in self._known.requests]

    async def _reclaim(self, place: GroupPlace, task: GroupTask) -> bool:
        group, index = task.group, place.hold.index
        for run in task.runs:
            if is_reachable(self._session, run):
                await account(self._session, index, run)
        await self._drop_cancelled(task)
        work = GroupWork(place, task, self._known)
        try:
            await work.run()
        except RedisError:
            raise
        except Exception as error:
            await self._note_error(work, error)
            raise
        finally:
            self._count(place, work)
        for run in list(self._known.settling.values()):
            if run.group_number == group.number and is_reachable(self._session, run):
                self.summary.settled += await settle(self._session, index, self._book, run)
        await self._troubles.poisoned(group.name, place.poisoned)
        return work.is_over

    async def _drop_cancelled(self, task: GroupTask) -> None:
        """Requests that were cancelled before they began."""
        for request in list(task.requests):
            if request.id in self._known.cancels:
                report = RunReport.not_begun(
                    *(request, RunState.CANCELLED, Stop.CANCELLED, self._index.now_ms()),
                    policy=task.group.reclaim.policy.value,
                    budget=task.group.reclaim.budget.value,
                )
                await self._book.report(report)
                await self._book.refuse(request)
                task.requests.remove(request)

    def _count(self, place: GroupPlace, work: GroupWork) -> None:
        self.summary.ended += work.ended
        if place.marked_blocks:
            self.summary.marked[place.group.name] = [
                known + more
                for known, more in zip(
                    self.summary.marked.get(place.group.name, [0, 0]),
                    (place.marked_blocks, place.marked_bytes),
                    strict=True,
                )
            ]
            due = place.delay_ms
            self.summary.due_in_ms = min(self.summary.due_in_ms or due, due)

    async def _note_error(self, work: GroupWork, error: Exception) -> None:
        run = work.begun
        if run is None or not run.report.began_ms:
            return
        run.errors += 1
        run.report.detail = f"{type(error).__name__}: {error}"
        if run.errors >= MOST_ERRORS:
            run.report.choose_no_more(Stop.ERRORS, self._index.now_ms())
            await self._book.settle(run)
        else:
            await self._book.save(run)
        await self._book.report(run.report)
