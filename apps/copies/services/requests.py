"""What people ask of migrations: begin one, look what it would do, cancel it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from django.conf import settings as django_settings
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.queue import COPIES_TASK, enqueue
from apps.copies.choices import OPEN_STATES, RunState
from apps.copies.models import CopyRun
from apps.copies.selectors import run_get
from apps.instances.selectors import group_get, group_meant
from apps.storages.selectors import storage_names
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.migration import CopyRequest, Direction
from kvcm_platform.core.validation.groups import check_way
from kvcm_platform.core.validation.values import INT64, number
from kvcm_platform.duties.copy_preview import Preview, policy_request, preview
from kvcm_platform.duties.session import index_session

MAX_OPEN_REQUESTS = 100


def request_check(*, acting: Actor, wish: CopyRequest) -> CopyRequest:
    """The accepted form of a request: its group is that of the instance, where one is named.

    Raises NOT_FOUND, INSTANCE_NOT_EXIST, INVALID_ARGUMENT.
    """
    group = group_meant(acting=acting, group=wish.group, instance_id=wish.instance_id)
    wish = replace(wish, group=group)
    check_way("", wish.source, wish.target)
    known = storage_names()
    for name, value in (("source", wish.source), ("target", wish.target)):
        if value not in known:
            raise invalid(name, f"storage {value} does not exist")
    number("idle_seconds", wish.idle_seconds, 0, INT64)
    number("max_bytes", wish.most_bytes, 0, INT64)
    number("max_bytes_per_second", wish.max_bytes_per_second, 0, INT64)
    return wish


def migration_preview(*, acting: Actor, wish: CopyRequest) -> Preview:
    """What a request would do now. Raises as request_check, and redis.RedisError."""
    return asyncio.run(_preview(request_check(acting=acting, wish=wish), is_policy=False))


def policy_preview(*, acting: Actor, group: str) -> Preview:
    """What the policy of a group would do now. Raises NOT_FOUND, also where it has none."""
    detail = group_get(acting=acting, name=group)
    wish = policy_request(detail.entry)
    if wish is None:
        raise DomainError(
            Code.NOT_FOUND, f"instance group {group} has no migration policy", field="migration"
        )
    return asyncio.run(_preview(wish, is_policy=True))


async def _preview(wish: CopyRequest, *, is_policy: bool) -> Preview:
    async with index_session(django_settings.KVCM_REDIS_URL) as session:
        if wish.group not in session.registry.groups:
            raise DomainError(Code.NOT_READY, f"group {wish.group} is not published yet")
        return await preview(session, wish, is_policy=is_policy)


def migration_request(*, acting: Actor, wish: CopyRequest) -> CopyRun:
    """Put a migration on record; the workers begin at once. Raises as request_check, and CAPACITY."""
    wish = request_check(acting=acting, wish=wish)
    planned = asyncio.run(_preview(wish, is_policy=False))
    run = _record(acting=acting, wish=wish, planned=planned)
    enqueue(COPIES_TASK)
    return run


@transaction.atomic
def _record(*, acting: Actor, wish: CopyRequest, planned: Preview) -> CopyRun:
    waiting = CopyRun.objects.filter(
        direction=Direction.REQUEST.value, state__in=[state.value for state in OPEN_STATES]
    )
    if waiting.count() >= MAX_OPEN_REQUESTS:
        raise DomainError(Code.CAPACITY, f"{MAX_OPEN_REQUESTS} requested migrations are not over yet")
    if waiting.filter(
        group_name=wish.group, instance_id=wish.instance_id, source=wish.source, target=wish.target
    ).exists():
        raise DomainError(Code.IN_USE, f"blocks of group {wish.group} are on this way already")
    run = CopyRun.objects.create(
        direction=Direction.REQUEST.value,
        group_name=wish.group,
        instance_id=wish.instance_id,
        source=wish.source,
        target=wish.target,
        retention=wish.retention.value,
        idle_seconds=wish.idle_seconds,
        most_bytes=wish.most_bytes,
        max_bytes_per_second=wish.max_bytes_per_second,
        is_verified=wish.is_verified,
        trigger=f"request of {acting.name}"[:200],
        state=RunState.QUEUED.value,
        planned_blocks=planned.moving_blocks if planned.is_complete else None,
        planned_bytes=planned.moving_bytes if planned.is_complete else None,
        detail=planned.obstacle,
    )
    asked = {"source": wish.source, "target": wish.target, "retention": wish.retention.value}
    audit_record(
        acting=acting,
        action="migration.request",
        kind="instance_group",
        name=wish.group,
        after={**asked, "instance_id": wish.instance_id, "id": run.pk},
    )
    return run


@transaction.atomic
def migration_cancel(*, acting: Actor, run_id: int) -> CopyRun:
    """End a migration; what is copied stays. Raises NOT_FOUND, CONFLICT for one that is over."""
    run_get(acting=acting, run_id=run_id)
    run = CopyRun.objects.select_for_update().get(pk=run_id)
    if run.state not in {state.value for state in OPEN_STATES}:
        raise DomainError(Code.CONFLICT, f"migration {run_id} is over: {run.state}")
    run.is_cancel_wanted = True
    if run.state == RunState.QUEUED:
        run.state, run.ended_at = RunState.CANCELLED.value, timezone.now()
    run.save()
    audit_record(
        acting=acting,
        action="migration.cancel",
        kind="instance_group",
        name=run.group_name,
        after={"id": run.pk},
    )
    return run
