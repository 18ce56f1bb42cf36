"""What is to be reclaimed of one group: by its marks, by its blocks' age, and by request."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvcm_platform.core.reclaim.marks import Demand, ReclaimUsage, Scope, Subject, demands
from kvcm_platform.core.reclaim.open_run import MARKS, TTL, OpenRun
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport, RunState, Stop, Trigger
from kvcm_platform.core.registry import GroupEntry, InstanceEntry
from kvcm_platform.duties.reclaim_choice import Target
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
from kvcm_platform.duties.reclaim_work import GroupPlace, RunWork
from kvcm_platform.index import served, waking
from kvcm_platform.index.held_bytes import read_usage
from kvcm_platform.index.reclaim_book import Book, last_name

MOST_ERRORS = 5
"""A run that failed so often in a row is ended."""


@dataclass(slots=True)
class GroupTask:
    """What a round found out about a group before anybody worked on it."""

    group: GroupEntry
    instances: tuple[InstanceEntry, ...]
    usage: ReclaimUsage
    """Of all groups."""
    demands: list[Demand] = field(default_factory=list)
    refused: Mapping[Subject, int] = field(default_factory=dict)
    """Limits that Starts were refused for, and what the largest of them wanted."""
    runs: list[OpenRun] = field(default_factory=list)
    requests: list[ReclaimRequest] = field(default_factory=list)
    is_aged: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.demands or self.runs or self.requests or self.is_aged)


class GroupWork:
    """Carries one group's task out. `is_over` = nothing is left to be done now."""

    def __init__(self, place: GroupPlace, task: GroupTask, book: Book) -> None:
        self._place = place
        self._task = task
        self._book = book
        self._usage = task.usage
        self.is_over = True
        self.ended = 0
        self.begun: OpenRun | None = None
        """The run that is worked on."""

    @property
    def _group(self) -> GroupEntry:
        return self._place.group

    async def run(self) -> None:
        """Raises what stood in the way; `begun` is the run that it happened to."""
        runs = self._task.runs
        await self._look_again()
        await self._marks(next((run for run in runs if run.kind == MARKS), None))
        for run in runs:
            if self.is_over and run.kind == TTL:
                await self._carry_out(run, self._by_age(run))
        if self._task.is_aged and self.is_over:
            await self._aged()
        for run in runs:
            if self.is_over and run.report.request is not None:
                await self._carry_out(run, self._by_request(run))
        for request in self._task.requests:
            if self.is_over:
                await self._requested(request)

    async def _look_again(self) -> None:
        """What the marks ask for now that nobody else works on the group.

        Of a storage no more than when all groups on it were asked: the others may have given since.
        """
        task, usage = self._task, await self._measure()
        asked = {one.subject: one.need for one in task.demands if one.scope is Scope.STORAGE}
        task.demands = [
            replace(one, need=min(one.need, asked[one.subject])) if one.scope is Scope.STORAGE else one
            for one in demands(self._place.registry, self._group, usage, refused=task.refused)
            if one.scope is not Scope.STORAGE or one.subject in asked
        ]
        for run in task.runs:
            begun = {Subject(Scope.STORAGE, name): 0 for name in run.storages}
            found = demands(self._place.registry, self._group, usage, begun=begun) if begun else []
            needs = {one.subject: one.need for one in found if one.scope is Scope.STORAGE}
            # One that died may have given more than it had put on record.
            run.storages = {name: min(left, needs.get(name, 0)) for name, left in run.storages.items()}

    async def _carry_out(self, run: OpenRun, targets: Callable[[], Awaitable[Sequence[Target]]]) -> bool:
        """Whether it is on record: nothing is told of a run that finds nothing to take."""
        self.begun = run
        work = RunWork(self._place, run, targets)
        stop = await work.go()
        if stop is None:
            self.is_over = False
            if work.is_begun:
                await work.tell()
        elif work.is_begun:
            await self._measure()
            await work.end(stop, self._usage.of_group(self._group.number))
            self.ended += 1
        self.begun = None
        return work.is_begun

    async def _note_last(self, kind: str, at_ms: int) -> None:
        await self._place.book.note_last(self._group.number, kind, at_ms)

    async def _measure(self) -> ReclaimUsage:
        number = self._group.number
        fresh = await read_usage(self._place.hold.index.connection, [number])
        self._usage = self._usage.updated(fresh, [number])
        return self._usage

    def _new_run(self, trigger: Trigger, run_id: str = "") -> OpenRun:
        group = self._group
        report = RunReport(
            id=run_id or secrets.token_hex(8),
            group=group.name,
            trigger=trigger,
            state=RunState.CHOOSING,
            policy=group.reclaim.policy.value,
            budget=group.reclaim.budget.value,
            capacity_bytes=group.quota.capacity_bytes,
            used_before_bytes=self._usage.of_group(group.number),
        )
        return OpenRun(report, group.number)

    # By the marks.

    async def _marks(self, run: OpenRun | None) -> None:
        is_new = run is None
        if run is None:
            run = self._by_demands()
            if run is None:
                return
        else:
            self._note(run, self._task.demands)
        # What is refused from now on is on record anew.
        await waking.refusals_forget(self._place.hold.index.connection, self._group.name, self._task.refused)
        is_begun = await self._carry_out(run, self._by_marks(run))
        if is_begun:
            # The run has noted what the group owes of storages.
            self._task.demands = [one for one in self._task.demands if one.scope is not Scope.STORAGE]
        if is_new and is_begun:
            await self._note_last(MARKS, run.report.began_ms)

    def _by_demands(self) -> OpenRun | None:
        """A run for what is over its mark, unless the last one was a moment ago."""
        found = self._task.demands
        if not found:
            return None
        is_over_limit = any(one.is_over_limit and one.scope is not Scope.STORAGE for one in found)
        trigger = Trigger.WATERMARK
        if is_over_limit:
            trigger = Trigger.QUOTA
        elif not demands(self._place.registry, self._group, self._usage):
            trigger = Trigger.REFUSED
        now = self._place.hold.index.now_ms()
        last = self._book.last.get(last_name(self._group.number, MARKS), 0)
        if not is_over_limit and now - last < self._group.reclaim.trigger_period_seconds * 1000:
            return None
        run = self._new_run(trigger)
        self._note(run, found)
        return run

    def _note(self, run: OpenRun, found: Sequence[Demand]) -> None:
        """The limits that the run is for; of storages the group's part as of now."""
        known = {(one["scope"], one["subject"]) for one in run.report.scopes}
        begun = {(scope, name): wanted for scope, name, wanted in run.begun}
        for one in found:
            name = (one.scope.value, one.subject)
            if name not in known:
                run.report.scopes.append(scope_dict(one))
                if one.scope is Scope.STORAGE:
                    run.storages[one.subject] = one.need
            if one.scope is not Scope.STORAGE:
                begun[name] = max(one.wanted, begun.get(name, 0))
        run.begun = [(*name, wanted) for name, wanted in begun.items()]

    def _by_marks(self, run: OpenRun) -> Callable[[], Awaitable[list[Target]]]:
        async def targets() -> list[Target]:
            usage = await self._measure()
            begun = {Subject(Scope(scope), name): wanted for scope, name, wanted in run.begun}
            found = demands(self._place.registry, self._group, usage, begun=begun)
            measured = [one for one in found if one.scope is not Scope.STORAGE]
            self._note(run, measured)
            return [*self._of_storages(run), *map(target_of, measured)]

        return targets

    def _of_storages(self, run: OpenRun) -> list[Target]:
        found = []
        for name, left in run.storages.items():
            storage = self._place.registry.storages.get(name)
            if storage is not None and left > 0:
                numbers = frozenset(storage.numbers)
                found.append(Target((Scope.STORAGE.value, name), left, numbers=numbers))
        return found

    # By age.

    async def _aged(self) -> None:
        run = self._new_run(Trigger.TTL)
        index = self._place.hold.index
        run.idle_before_ms = index.now_ms() - self._group.reclaim.ttl_seconds * 1000
        await self._note_last(TTL, index.now_ms())
        await self._carry_out(run, self._by_age(run))

    def _by_age(self, run: OpenRun) -> Callable[[], Awaitable[list[Target]]]:
        async def targets() -> list[Target]:
            return [Target(("", "ttl"), None, idle_before_ms=run.idle_before_ms)]

        return targets

    # By request.

    async def _requested(self, request: ReclaimRequest) -> None:
        run = self._new_run(Trigger.REQUEST, request.id)
        run.report.request = request.to_dict()
        run.report.began_ms = self._place.hold.index.now_ms()
        reason = unfit(self._place.registry, self._place.instances, request)
        if reason:
            run.report.state, run.report.stop = RunState.FAILED, Stop.ERRORS.value
            run.report.detail, run.report.ended_ms = reason, run.report.began_ms
            await self._place.book.report(run.report)
            await self._place.book.refuse(request)
            self.ended += 1
            return
        await self._measure()
        run.report.used_before_bytes = self._usage.of_group(self._group.number)
        await self._want(run, request)
        await self._place.book.save(run)
        await self._place.book.report(run.report)
        await self._carry_out(run, self._by_request(run))

    async def _want(self, run: OpenRun, request: ReclaimRequest) -> None:
        """Turns what was asked for into an amount."""
        place = self._place
        if request.idle_seconds:
            run.idle_before_ms = place.hold.index.now_ms() - request.idle_seconds * 1000
        if is_to_low_marks(request):
            run.to_low_marks = True
            self._note(run, lowering(place.registry, place.group, place.instances, self._usage))
        else:
            amounts = await served.served_amounts(place.hold.index, place.instances)
            run.amount, run.in_blocks = amount_of(request, self._scope_of(request), amounts)

    def _scope_of(self, request: ReclaimRequest) -> Target:
        return request_scope(self._place.registry, self._place.instances, request)

    def _by_request(self, run: OpenRun) -> Callable[[], Awaitable[list[Target]]]:
        request = ReclaimRequest.from_dict(run.report.request or {})
        scope = self._scope_of(request)
        by_marks = self._by_marks(run)

        async def targets() -> list[Target]:
            if run.to_low_marks:
                both = [narrowed(target, scope) for target in await by_marks()]
                return [target for target in both if target is not None]
            left = None if run.amount is None else run.amount - run.chosen
            if left is not None and left <= 0:
                return []
            return [
                Target(
                    *(("", "request"), left, run.in_blocks, scope.numbers, scope.instance),
                    idle_before_ms=run.idle_before_ms,
                )
            ]

        return targets
