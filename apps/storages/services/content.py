"""Storages whose objects may be gone without a deletion: when their blocks are to be checked.

The need is a member of the row, so it outlives whoever noted it; the request itself may be repeated.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import redis
from django.db.models import F, Q

from apps.storages.choices import HealthEvent
from apps.storages.models import Storage
from apps.storages.services.history import turn_note
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.types import StorageType
from kvcm_platform.index.storage_checks import CheckState, check_states, request_check
from kvcm_platform.storage.backend import ProbeResult
from kvcm_platform.storage.registry import KINDS

DROPPED_PAUSE_SECONDS = 15.0
"""A storage that goes on dropping objects is checked one look after the other, with this between them."""


def content_note(storage: Storage, result: ProbeResult, *, at: datetime) -> None:
    """Take over what a check found out about the content.

    Another name of its life than before calls for a check of all its blocks at once, objects that the
    storage dropped by itself for one soon.
    """
    if result.dropped_objects is not None:
        storage.dropped_objects = result.dropped_objects
        if storage.dropped_objects_checked is None:
            # What was dropped before is found by the check that is due for a new storage anyway.
            storage.dropped_objects_checked = result.dropped_objects
    life = result.content_life
    if not life or life == storage.content_life:
        return
    if storage.content_life:
        storage.needs_content_check = True
        message = "what it holds began anew: every block on it is checked"
        turn_note(storage, HealthEvent.CONTENT_LOST, at=at, message=message)
    storage.content_life = life[:256]


def content_forget(storage: Storage) -> None:
    """It points elsewhere now: nothing is known of what it holds, and its blocks are to be checked."""
    storage.content_life, storage.needs_content_check = "", True
    storage.dropped_objects = storage.dropped_objects_checked = None


def content_checks_ask(*, client: redis.Redis, limits: HealthLimits, now: datetime) -> list[str]:
    """Ask for the checks that are needed or due; the names of the storages. Raises redis.RedisError."""
    due = Q(needs_content_check=True)
    if limits.content_check_seconds:
        before = now - timedelta(seconds=limits.content_check_seconds)
        may_lose = [kind for kind, row in KINDS.items() if row.capabilities.may_lose_content]
        due |= Q(type__in=may_lose) & (Q(content_checked_at__lt=before) | Q(content_checked_at__isnull=True))
    # One that does not answer is asked about when it does; the memory of a pool is its segments' business.
    rows = Storage.objects.filter(is_available=True, is_leaving=False)
    rows = rows.exclude(type=StorageType.TAIR_MEMPOOL.value)
    dropped = rows.filter(dropped_objects__isnull=False).exclude(dropped_objects=F("dropped_objects_checked"))
    wanted = {storage.pk: storage for storage in [*rows.filter(due), *_rested(client, list(dropped))]}
    for storage in wanted.values():
        request_check(client, [storage.number])
        Storage.objects.filter(pk=storage.pk, content_life=storage.content_life).update(
            needs_content_check=False,
            content_checked_at=now,
            dropped_objects_checked=storage.dropped_objects,
        )
    return [storage.name for storage in wanted.values()]


def _rested(client: redis.Redis, storages: list[Storage]) -> list[Storage]:
    """Those that no check is under way for, nor was a moment ago. Raises redis.RedisError."""
    if not storages:
        return []
    states = check_states(client, [storage.number for storage in storages])
    seconds, microseconds = client.time()
    now_ms = seconds * 1000 + microseconds / 1000

    def is_rested(state: CheckState) -> bool:
        return not state.is_running and now_ms - state.ended_ms >= DROPPED_PAUSE_SECONDS * 1000

    return [storage for storage in storages if is_rested(states.get(storage.number, CheckState()))]
