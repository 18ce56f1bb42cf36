"""Takes over what reclaimers report, exactly once: rows, totals and position change in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import redis
import structlog
from django.db import transaction
from django.utils import timezone

from apps.capacity.choices import ENDED_STATES
from apps.capacity.models import ReclaimRun, ReclaimTotal, ReportCursor
from apps.common.redis_client import index_client
from kvcm_platform.core.reclaim.runs import RunReport, RunState
from kvcm_platform.index import reclaim_desk, streams

log = structlog.get_logger(__name__)

REPORTS_A_BATCH = 200
BATCHES_AT_MOST = 50
"""A call is bounded; whoever is that far behind goes on with the next one."""
_SAME_NAMES = (
    *("planned_blocks", "planned_bytes", "chosen_blocks", "chosen_bytes", "freed_blocks", "freed_bytes"),
    *("failed_blocks", "failed_bytes", "by_instance", "by_storage", "capacity_bytes", "used_before_bytes"),
    *("used_after_bytes", "policy", "budget", "scopes", "rounds", "busy_ms", "stop", "detail"),
)
_KEPT = frozenset({"run_id", "created_at", "is_cancel_wanted"})
"""What requests and cancellations write, and reports leave alone."""
_ADDED_UP = ("chosen_blocks", "chosen_bytes", "freed_blocks", "freed_bytes")


def reports_ingest(*, client: redis.Redis | None = None) -> int:
    """Take over every report that nobody took over yet; returns how many runs changed.

    May be called by several processes at once. Raises redis.RedisError and django.db.DatabaseError.
    """
    client = client or index_client()
    changed = 0
    for _ in range(BATCHES_AT_MOST):
        before = _position(client)
        batch = reclaim_desk.reports_after(client, before, REPORTS_A_BATCH)
        if batch:
            changed += _take_over(before, batch)
        if len(batch) < REPORTS_A_BATCH:
            return changed
    log.warning("reports of reclaim runs are taken over more slowly than they come")
    return changed


def _position(client: redis.Redis) -> str:
    cursor = ReportCursor.objects.filter(pk=ReportCursor.SINGLETON).first()
    position = streams.START if cursor is None else cursor.position
    newest = reclaim_desk.newest_report(client)
    if not streams.is_before(newest, position):
        return position
    if newest == streams.START:
        # Emptied: entries that come have later times, unless the clock went back as well.
        return position
    log.warning("reports of reclaim runs begin anew: the index is an earlier one", position=position)
    _move(position, streams.START)
    return streams.START


@transaction.atomic
def _move(before: str, after: str) -> bool:
    """Whether the cursor stood where it was thought to; then it is moved, inside the caller's transaction."""
    ReportCursor.objects.bulk_create(
        [ReportCursor(pk=ReportCursor.SINGLETON, position=streams.START)], ignore_conflicts=True
    )
    moved = ReportCursor.objects.filter(pk=ReportCursor.SINGLETON, position=before)
    return bool(moved.update(position=after))


@transaction.atomic
def _take_over(before: str, batch: list[tuple[str, RunReport | None]]) -> int:
    if not _move(before, batch[-1][0]):
        return 0  # another process took these over
    newest = {report.id: report for _, report in batch if report is not None}
    rows = {
        row.run_id: row
        for row in ReclaimRun.objects.select_for_update().filter(run_id__in=list(newest)).order_by("pk")
    }
    changes = []
    for report in newest.values():
        row = rows.get(report.id) or _row_of(report)
        if row.is_final:
            continue  # what a reclaimer says that was stopped before and woke up
        before_it = {name: getattr(row, name) for name in _ADDED_UP}
        _apply(row, report)
        changes.append((row, before_it))
    _write([row for row, _ in changes])
    _add_up(changes)
    return len(changes)


def _write(rows: Sequence[ReclaimRun]) -> None:
    """All at once, new ones and known ones: reports of a hundred groups come together."""
    names = [member.attname for member in ReclaimRun._meta.concrete_fields if not member.primary_key]
    ReclaimRun.objects.bulk_create(
        [ReclaimRun(**{name: getattr(row, name) for name in names}) for row in rows],
        update_conflicts=True,
        unique_fields=["run_id"],
        update_fields=[name for name in names if name not in _KEPT],
    )


def _row_of(report: RunReport) -> ReclaimRun:
    return ReclaimRun(
        run_id=report.id,
        group_name=report.group,
        created_at=_moment(report.began_ms) or timezone.now(),
    )


def _apply(row: ReclaimRun, report: RunReport) -> None:
    for name in _SAME_NAMES:
        setattr(row, name, getattr(report, name))
    row.group_name, row.trigger, row.state = report.group, report.trigger.value, report.state.value
    row.policy, row.budget = str(report.policy), str(report.budget)
    if report.request is not None:
        row.request, row.asked_by = report.request, str(report.request.get("by", ""))[:150]
    row.detail = row.detail.replace("\0", "")
    row.oldest_use_at, row.newest_use_at = _moment(report.oldest_use_ms), _moment(report.newest_use_ms)
    row.began_at, row.marked_at = _moment(report.began_ms), _moment(report.marked_ms)
    row.ended_at = _moment(report.ended_ms)
    row.reported_at = timezone.now()
    row.is_final = report.state in ENDED_STATES
    if row.is_final:
        row.ended_at = row.ended_at or row.reported_at


def _add_up(changes: Sequence[tuple[ReclaimRun, Mapping[str, int]]]) -> None:
    """Adds to the totals what each run did since its report before."""
    groups = {row.group_name for row, _ in changes}
    totals = {
        (one.group_name, one.trigger): one
        for one in ReclaimTotal.objects.select_for_update()
        .filter(group_name__in=groups)
        .order_by("group_name", "trigger")
    }
    for row, before in changes:
        where = row.group_name, row.trigger
        total = totals.setdefault(where, ReclaimTotal(group_name=where[0], trigger=where[1]))
        for name in _ADDED_UP:
            setattr(total, name, getattr(total, name) + getattr(row, name) - before[name])
        if row.is_final:
            total.runs += 1
            total.failed_runs += row.state == RunState.FAILED
            if row.began_at is not None and row.ended_at is not None:
                total.seconds += max(0.0, (row.ended_at - row.began_at).total_seconds())
    touched = {(row.group_name, row.trigger) for row, _ in changes}
    names = [*_ADDED_UP, "runs", "failed_runs", "seconds"]
    ReclaimTotal.objects.bulk_create(
        [
            ReclaimTotal(
                group_name=where[0],
                trigger=where[1],
                **{name: getattr(totals[where], name) for name in names},
            )
            for where in sorted(touched)
        ],
        update_conflicts=True,
        unique_fields=["group_name", "trigger"],
        update_fields=names,
    )


def _moment(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
