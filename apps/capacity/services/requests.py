"""What people ask of reclaim: begin a run, end one."""

from __future__ import annotations

import secrets
from dataclasses import asdict, replace

import redis
import structlog
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.capacity.choices import OPEN_STATES
from apps.capacity.models import ReclaimRun
from apps.capacity.selectors import run_get
from apps.common.actor import Actor
from apps.common.queue import RECLAIM_TASK, enqueue
from apps.common.redis_client import index_client
from apps.instances.selectors import group_meant
from apps.storages.selectors import storage_names
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunState, Stop, Trigger
from kvcm_platform.core.validation.values import INT64, number
from kvcm_platform.index import reclaim_desk

log = structlog.get_logger(__name__)

MAX_OPEN_REQUESTS = 100
_AMOUNTS = ("bytes", "blocks", "percent")


def request_check(*, acting: Actor, wish: ReclaimRequest) -> ReclaimRequest:
    """The accepted form of a request: its group is that of the instance, where one is named.

    Raises NOT_FOUND, INSTANCE_NOT_EXIST, INVALID_ARGUMENT.
    """
    group = group_meant(acting=acting, group=wish.group, instance_id=wish.instance_id)
    wish = replace(wish, group=group)
    if wish.storage and wish.storage not in storage_names():
        raise invalid("storage", f"storage {wish.storage} does not exist")
    number("bytes", wish.bytes, 0, INT64)
    number("blocks", wish.blocks, 0, INT64)
    number("idle_seconds", wish.idle_seconds, 0, INT64)
    if not 0 <= wish.percent <= 100:
        raise invalid("percent", "must be above 0 and at most 100")
    named = [name for name in _AMOUNTS if getattr(wish, name)]
    if len(named) > 1:
        raise invalid(named[1], f"only one amount may be named; {named[0]} is, too")
    return replace(wish, by=acting.name)


def reclaim_request(*, acting: Actor, wish: ReclaimRequest) -> ReclaimRun:
    """Put a run on record and hand it to the reclaimers, which begin at once.

    Raises as request_check; CAPACITY, IN_USE; redis.RedisError where it could not be handed over.
    """
    wish = replace(request_check(acting=acting, wish=wish), id=secrets.token_hex(8))
    run = _record(acting=acting, wish=wish)
    try:
        reclaim_desk.request_hand_in(index_client(), wish)
    except redis.RedisError as error:
        _give_up(run, f"it was not handed over: {error}")
        raise
    enqueue(RECLAIM_TASK)
    return run


@transaction.atomic
def _record(*, acting: Actor, wish: ReclaimRequest) -> ReclaimRun:
    open_requests = ReclaimRun.objects.filter(trigger=Trigger.REQUEST.value, state__in=OPEN_STATES)
    asked = list(open_requests.values_list("group_name", "request"))
    if len(asked) >= MAX_OPEN_REQUESTS:
        raise DomainError(Code.CAPACITY, f"{MAX_OPEN_REQUESTS} requested runs are not over yet")
    for group, request in asked:
        if group == wish.group and _scope(request) == (wish.instance_id, wish.storage):
            raise DomainError(Code.IN_USE, f"a run that was requested for this of group {group} is not over")
    run = ReclaimRun.objects.create(
        run_id=wish.id,
        group_name=wish.group,
        trigger=Trigger.REQUEST.value,
        state=RunState.QUEUED.value,
        request=asdict(wish),
        asked_by=acting.name[:150],
        created_at=timezone.now(),
    )
    audit_record(
        acting=acting,
        action="reclaim.request",
        kind="instance_group",
        name=wish.group,
        after={name: value for name, value in asdict(wish).items() if value and name not in ("group", "by")},
    )
    return run


def _scope(request: dict[str, object] | None) -> tuple[object, object]:
    known = request or {}
    return known.get("instance_id", ""), known.get("storage", "")


def reclaim_cancel(*, acting: Actor, run_id: str) -> ReclaimRun:
    """Have a run choose no further blocks; what it chose goes.

    Raises NOT_FOUND, CONFLICT for one that chooses none any more, redis.RedisError.
    """
    run = _want_cancelled(acting=acting, run_id=run_id)
    if reclaim_desk.cancel_hand_in(index_client(), run_id):
        # Not final: where a reclaimer had taken it a moment ago, its reports tell what came of it.
        run = _end_unbegun(run_id)
    enqueue(RECLAIM_TASK)
    return run


@transaction.atomic
def _want_cancelled(*, acting: Actor, run_id: str) -> ReclaimRun:
    run_get(acting=acting, run_id=run_id)
    run = ReclaimRun.objects.select_for_update().get(run_id=run_id)
    if run.state not in (RunState.QUEUED, RunState.CHOOSING):
        raise DomainError(Code.CONFLICT, f"reclaim run {run_id} chooses no further blocks: {run.state}")
    run.is_cancel_wanted = True
    run.save(update_fields=["is_cancel_wanted"])
    audit_record(
        acting=acting,
        action="reclaim.cancel",
        kind="instance_group",
        name=run.group_name,
        after={"id": run_id},
    )
    return run


@transaction.atomic
def _end_unbegun(run_id: str) -> ReclaimRun:
    run = ReclaimRun.objects.select_for_update().get(run_id=run_id)
    if run.state == RunState.QUEUED:
        run.state, run.stop, run.ended_at = RunState.CANCELLED.value, Stop.CANCELLED.value, timezone.now()
        run.save()
    return run


@transaction.atomic
def _give_up(run: ReclaimRun, why: str) -> None:
    row = ReclaimRun.objects.select_for_update().get(pk=run.pk)
    if row.state == RunState.QUEUED:
        row.state, row.stop, row.detail = RunState.FAILED.value, Stop.ERRORS.value, why
        row.ended_at = timezone.now()
        row.save()
    log.warning("a reclaim run was not handed over", run=row.run_id, reason=why)
