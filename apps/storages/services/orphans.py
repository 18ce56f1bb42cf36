"""Searches for orphans as operators ask for them: one at a time a storage, on record with who asked."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.common.queue import enqueue
from apps.storages.choices import OrphanRunState
from apps.storages.models import UNDER_WAY, OrphanRun
from apps.storages.selectors import orphan_run_get, storage_get
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.types import StorageType
from kvcm_platform.duties.orphan_order import MIN_AGE_SECONDS
from kvcm_platform.storage.registry import KINDS

SEARCH_TASK = "apps.storages.tasks.search_orphans"
KEPT = 50
"""Runs of a storage that stay on record."""
LOST_SECONDS = 60
"""Without a sign of life for so long a run is taken over."""
MOST_TRIES = 3


def orphans_search(
    *,
    acting: Actor,
    name: str,
    is_dry: bool = True,
    min_age_seconds: int | None = None,
    is_queued: bool = True,
) -> OrphanRun:
    """Have a storage searched for what nothing refers to, and cleaned of it unless `is_dry`.

    Without `is_queued` the caller carries it out itself (orphan_run_carry_out). Raises NOT_FOUND,
    UNSUPPORTED, INVALID_ARGUMENT for an age below the longest write, and IN_USE while the storage is
    being searched.
    """
    acting.require(Role.OPERATOR)
    acting.require_all_groups()
    storage = storage_get(name=name)
    if StorageType(storage.type) not in KINDS:
        raise DomainError(Code.UNSUPPORTED, f"storages of type {storage.type} cannot be searched")
    age = MIN_AGE_SECONDS if min_age_seconds is None else min_age_seconds
    if age < MIN_AGE_SECONDS:
        raise invalid(
            "min_age_seconds", f"must be at least {MIN_AGE_SECONDS}, so that no write is still going on"
        )
    try:
        with transaction.atomic():
            run = OrphanRun.objects.create(
                storage=storage,
                is_dry=is_dry,
                min_age_seconds=age,
                asked_by=acting.name,
                asked_at=timezone.now(),
            )
            after = {"is_dry": is_dry, "min_age_seconds": age}
            audit_record(
                acting=acting, action="storage.search_orphans", kind="storage", name=name, after=after
            )
            kept = storage.orphan_runs.order_by("-id").values_list("id", flat=True)[:KEPT]
            storage.orphan_runs.exclude(id__in=list(kept)).exclude(state__in=UNDER_WAY).delete()
            if is_queued:
                transaction.on_commit(partial(enqueue, SEARCH_TASK, run_id=run.pk))
    except IntegrityError as error:
        raise DomainError(Code.IN_USE, f"storage {name} is being searched already") from error
    return run


@transaction.atomic
def orphans_cancel(*, acting: Actor, name: str, run_id: int) -> OrphanRun:
    """Ask a run to stop; it does within seconds. One that is over stays as it is. Raises NOT_FOUND."""
    acting.require(Role.OPERATOR)
    acting.require_all_groups()
    run = orphan_run_get(name=name, run_id=run_id)
    OrphanRun.objects.filter(pk=run.pk, state__in=UNDER_WAY).update(is_cancel_asked=True)
    waiting = OrphanRun.objects.filter(pk=run.pk, state=OrphanRunState.QUEUED.value)
    waiting.update(state=OrphanRunState.CANCELLED.value, ended_at=timezone.now())
    audit_record(acting=acting, action="storage.cancel_orphans", kind="storage", name=name)
    return orphan_run_get(name=name, run_id=run_id)


def orphan_runs_resume() -> int:
    """Hand on runs that nobody carries out: their message was lost, or who had them died."""
    long_ago = timezone.now() - timedelta(seconds=LOST_SECONDS)
    queued = OrphanRun.objects.filter(state=OrphanRunState.QUEUED.value, asked_at__lt=long_ago)
    running = OrphanRun.objects.filter(state=OrphanRunState.RUNNING.value)
    ahead = timezone.now() + timedelta(seconds=LOST_SECONDS)
    lost = running.filter(Q(seen_at__lt=long_ago) | Q(seen_at__gt=ahead))
    lost.filter(tries__gte=MOST_TRIES).update(
        state=OrphanRunState.FAILED.value,
        ended_at=timezone.now(),
        reason=f"whoever carried it out died {MOST_TRIES} times",
    )
    waiting = [*queued.values_list("id", flat=True), *lost.values_list("id", flat=True)]
    for run_id in waiting:
        enqueue(SEARCH_TASK, run_id=run_id)
    return len(waiting)
