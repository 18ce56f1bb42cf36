"""What the rounds of migrations put on record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from django.conf import settings as django_settings
from django.db import close_old_connections, transaction
from django.utils import timezone

from apps.common.queue import COPIES_TASK, enqueue
from apps.copies.choices import OPEN_STATES, RunState
from apps.copies.models import CopyRun
from apps.copies.selectors import open_requests
from apps.copies.services.troubles import troubles_note
from apps.instances.selectors import group_names, groups_migrate
from apps.storages.selectors import storage_names
from kvcm_platform.core.migration import CopyRequest, Direction
from kvcm_platform.duties.copies import ROUND_SECONDS, Blocked, CopyRound
from kvcm_platform.duties.copy_waves import Migration, Stop, Tally
from kvcm_platform.duties.lease import copies_lease
from kvcm_platform.duties.session import index_session
from kvcm_platform.index import copy_totals

log = structlog.get_logger(__name__)

REQUESTS_AT_ONCE = 8
KEPT_RUNS = 1000
"""Runs on record, those not over apart."""
_OPEN = [state.value for state in OPEN_STATES]

T = TypeVar("T")


def copies_work(*, seconds: float = ROUND_SECONDS) -> dict[str, int]:
    """One round of everything that has to move. Returns blocks copied, by migration."""
    cancelled_end()
    aimless_end()
    requests = open_requests(at_most=REQUESTS_AT_ONCE)
    if not requests and not groups_migrate():
        policy_runs_end(going_on=())
        troubles_note(results=(), blocked=(), now=timezone.now())
        return {}
    return asyncio.run(_work(seconds, requests))


async def _work(seconds: float, requests: list[CopyRequest]) -> dict[str, int]:
    async with index_session(django_settings.KVCM_REDIS_URL) as session, copies_lease(session) as owner:
        if not owner:
            return {}
        book = RunBook()
        copying = CopyRound(session, owner, seconds, book.progress)
        results = await copying.run(requests)
        await _in_database(lambda: book.close(results, copying.blocked))
    if any(tally.stop is Stop.TIME for _, tally in results):
        enqueue(COPIES_TASK)
    return {what.name: tally.copied_blocks for what, tally in results}


async def _in_database(work: Callable[[], T]) -> T:
    def run() -> T:
        close_old_connections()
        try:
            return work()
        finally:
            close_old_connections()

    return await asyncio.to_thread(run)


@dataclass(slots=True)
class RunBook:
    """The runs of one round: which row each migration has, and what of its tally is on record."""

    noted: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    busy: dict[str, float] = field(default_factory=dict)

    async def progress(self, what: Migration, tally: Tally) -> bool:
        """After each wave; False when the run was cancelled."""
        if what.direction is not Direction.REQUEST and not tally.has_done_anything:
            return True
        return await _in_database(lambda: self.note(what, tally))

    @transaction.atomic
    def note(self, what: Migration, tally: Tally) -> bool:
        row = self._row(what)
        before = self.noted.get(what.name, {})
        for name in copy_totals.NAMES:
            setattr(row, name, getattr(row, name) + getattr(tally, name) - before.get(name, 0))
        if what.name not in self.noted:
            row.rounds += 1
            row.started_at = row.started_at or timezone.now()
        now = time.monotonic()
        row.busy_seconds += now - self.busy.get(what.name, self.begun)
        self.busy[what.name] = now
        self.noted[what.name] = {name: getattr(tally, name) for name in copy_totals.NAMES}
        row.reasons = {**row.reasons, **tally.reasons}
        if row.state == RunState.QUEUED:
            row.state, row.detail = RunState.RUNNING.value, ""
        row.save()
        return not row.is_cancel_wanted

    def _row(self, what: Migration) -> CopyRun:
        if what.name in self.rows:
            return CopyRun.objects.select_for_update().get(pk=self.rows[what.name])
        if what.direction is Direction.REQUEST:
            row = CopyRun.objects.select_for_update().get(pk=_request_key(what.name))
        else:
            row = policy_run(what)
        self.rows[what.name] = row.pk
        return row

    def close(self, results: list[tuple[Migration, Tally]], blocked: list[Blocked]) -> None:
        """Ends what is done; what is not goes on in the next round."""
        going_on = []
        for what, tally in results:
            is_request = what.direction is Direction.REQUEST
            if is_request or tally.has_done_anything:
                self.note(what, tally)
            if what.name not in self.rows:
                continue
            row = CopyRun.objects.get(pk=self.rows[what.name])
            row.stop, row.detail = tally.stop.value, tally.detail
            if (
                tally.stop in {Stop.TIME, Stop.FENCED, Stop.STORAGE, Stop.NO_ROOM}
                and not row.is_cancel_wanted
            ):
                going_on.append(row.pk)
            else:
                _end(row)
            row.save()
        for one in blocked:
            if one.direction is Direction.REQUEST:
                CopyRun.objects.filter(pk=_request_key(one.name)).update(
                    stop=Stop.STORAGE.value, detail=one.reason, updated_at=timezone.now()
                )
            else:
                going_on += CopyRun.objects.filter(
                    group_name=one.group.name, direction=one.direction.value, state__in=_OPEN
                ).values_list("pk", flat=True)
        policy_runs_end(going_on=going_on)
        troubles_note(results=results, blocked=blocked, now=timezone.now())
        runs_forget()


def _request_key(name: str) -> int:
    """The run that a request was made from (CopyRequest.name)."""
    return int(name.partition(":")[2])


def _end(row: CopyRun) -> None:
    row.ended_at = timezone.now()
    if row.is_cancel_wanted:
        row.state, row.stop = RunState.CANCELLED.value, Stop.CANCELLED.value
    elif row.stop == Stop.FAILURES or (row.failed_blocks and not row.copied_blocks and not row.there_blocks):
        row.state = RunState.FAILED.value
    else:
        row.state = RunState.DONE.value


def policy_run(what: Migration) -> CopyRun:
    """The open run of a policy, begun where there is none."""
    open_run = CopyRun.objects.select_for_update().filter(
        group_name=what.group.name, direction=what.direction.value, state__in=_OPEN
    )
    row = open_run.first()
    if row is not None:
        return row
    policy = what.group.migration
    trigger = "policy"
    if policy is not None and what.direction is Direction.DEMOTION:
        trigger = f"policy: {what.source.name} above {policy.trigger_ratio * 100:g}%"
    elif policy is not None:
        trigger = f"policy: used {policy.promote_after_hits} times on {what.source.name}"
    return CopyRun.objects.create(
        direction=what.direction.value,
        group_name=what.group.name,
        source=what.source.name,
        target=what.target.name,
        retention=what.retention.value,
        max_bytes_per_second=what.max_bytes_per_second,
        is_verified=what.is_verified,
        trigger=trigger[:200],
        state=RunState.RUNNING.value,
        planned_bytes=what.most_bytes if what.direction is Direction.DEMOTION else None,
        started_at=timezone.now(),
    )


def policy_runs_end(*, going_on: list[int] | tuple[int, ...]) -> None:
    """Ends the runs of policies that ask for nothing more."""
    stale = CopyRun.objects.filter(state__in=_OPEN).exclude(direction=Direction.REQUEST.value)
    for row in stale.exclude(pk__in=list(going_on)):
        row.stop = row.stop if row.stop not in ("", Stop.TIME) else Stop.DONE.value
        _end(row)
        row.save()


def cancelled_end() -> None:
    """Ends requests that were cancelled between two rounds."""
    for row in CopyRun.objects.filter(state__in=_OPEN, is_cancel_wanted=True):
        _end(row)
        row.save()


def aimless_end() -> None:
    """Ends requests whose group or storages were removed: one that comes back by that name is another."""
    groups, storages = group_names(), storage_names()
    for row in CopyRun.objects.filter(state__in=_OPEN, direction=Direction.REQUEST.value):
        gone = [f"storage {name}" for name in (row.source, row.target) if name not in storages]
        if row.group_name not in groups:
            gone.insert(0, f"instance group {row.group_name}")
        if gone:
            row.state, row.ended_at = RunState.FAILED.value, timezone.now()
            row.stop, row.detail = Stop.STORAGE.value, f"{' and '.join(gone)} was removed"
            row.save()


def runs_forget() -> None:
    """Deletes the oldest runs beyond KEPT_RUNS."""
    over = CopyRun.objects.exclude(state__in=_OPEN).order_by("-id").values_list("pk", flat=True)
    last = over[KEPT_RUNS : KEPT_RUNS + 1].first()
    if last is not None:
        CopyRun.objects.exclude(state__in=_OPEN).filter(pk__lte=last).delete()
