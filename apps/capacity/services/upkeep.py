"""Keeps the record of runs bounded, and ends those that nobody knows of any more."""

from __future__ import annotations

from datetime import datetime, timedelta

import redis
import structlog
from django.db import transaction
from django.db.models import Q

from apps.capacity.choices import OPEN_STATES
from apps.capacity.models import ReclaimRun, ReclaimTotal
from apps.capacity.services.ingest import reports_ingest
from apps.common.redis_client import index_client
from apps.instances.selectors import group_names
from kvcm_platform.core.reclaim.runs import RunState
from kvcm_platform.index import reclaim_desk

log = structlog.get_logger(__name__)

KEPT_RUNS = 10_000
KEPT = timedelta(days=90)
_FORGOTTEN_AT_MOST = 5000
_SETTLED_AT_MOST = 5000
SILENT = timedelta(minutes=1)
"""An open run of which the reclaimers know nothing, and that is quiet for so long, has no reporter left."""


def runs_forget(*, now: datetime, at_most: int = _FORGOTTEN_AT_MOST) -> int:
    """Delete up to `at_most` runs that are old or too many, oldest first, never an open one."""
    over = ReclaimRun.objects.exclude(state__in=OPEN_STATES)
    last = over.order_by("-id").values_list("pk", flat=True)[KEPT_RUNS : KEPT_RUNS + 1].first()
    old = Q(created_at__lt=now - KEPT)
    wanted = over.filter(old if last is None else old | Q(pk__lte=last))
    keys = list(wanted.order_by("id").values_list("pk", flat=True)[:at_most])
    ReclaimRun.objects.filter(pk__in=keys).delete()
    return len(keys)


def totals_forget() -> None:
    """Drop the totals of groups that are gone and of which no run is on record."""
    known = group_names() | set(ReclaimRun.objects.order_by().values_list("group_name", flat=True).distinct())
    ReclaimTotal.objects.exclude(group_name__in=known).delete()


def runs_settle(*, client: redis.Redis, now: datetime) -> int:
    """End open runs that are lost to the reclaimers: their last report was cut off, or never written.

    Raises redis.RedisError.
    """
    # In this order: a run that ends meanwhile has its last report taken over before it is judged.
    known = reclaim_desk.runs_known(client)
    reports_ingest(client=client)
    silent = Q(reported_at__lt=now - SILENT) | Q(reported_at=None, created_at__lt=now - SILENT)
    ended = 0
    quiet = ReclaimRun.objects.filter(silent, state__in=OPEN_STATES).order_by("pk")
    for key, run_id in list(quiet.values_list("pk", "run_id")[:_SETTLED_AT_MOST]):
        if run_id not in known:
            ended += _end(key, now)
    over = ReclaimRun.objects.filter(run_id__in=reclaim_desk.cancels(client), ended_at__lt=now - SILENT)
    reclaim_desk.cancels_forget(client, list(over.values_list("run_id", flat=True)))
    return ended


@transaction.atomic
def _end(key: int, now: datetime) -> bool:
    row = ReclaimRun.objects.select_for_update().filter(pk=key, state__in=OPEN_STATES).first()
    if row is None:
        return False
    was_begun = row.reported_at is not None
    row.state = RunState.CANCELLED.value if row.is_cancel_wanted else RunState.FAILED.value
    row.detail = (
        "its end is not on record: the index lost it"
        if was_begun
        else "it never reached the reclaimers: the index lost the request"
    )
    row.ended_at = now
    row.save()
    log.warning("a reclaim run was lost", run=row.run_id, group=row.group_name)
    return True


def runs_keep(*, now: datetime) -> dict[str, int]:
    """All of it; an index that is away keeps nothing from being forgotten."""
    forgotten = runs_forget(now=now)
    totals_forget()
    try:
        lost = runs_settle(client=index_client(), now=now)
    except redis.RedisError as error:
        log.warning("open reclaim runs are not looked at", reason=str(error))
        lost = 0
    return {"forgotten": forgotten, "lost": lost}
