"""Storages whose objects may be gone without a deletion: when their blocks are to be checked.

The need is a member of the row, so it outlives whoever noted it; the request itself may be repeated.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import redis
from django.db.models import Q

from apps.storages.choices import HealthEvent
from apps.storages.models import Storage
from apps.storages.services.history import turn_note
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.types import StorageType
from kvcm_platform.index.storage_checks import request_check
from kvcm_platform.storage.registry import KINDS


def content_note(storage: Storage, life: str, *, at: datetime) -> None:
    """Take over the name of the life of what is stored; another name than before calls for a check."""
    if not life or life == storage.content_life:
        return
    if storage.content_life:
        storage.needs_content_check = True
        message = "what it holds began anew: every block on it is checked"
        turn_note(storage, HealthEvent.CONTENT_LOST, at=at, message=message)
    storage.content_life = life[:256]


def content_checks_ask(*, client: redis.Redis, limits: HealthLimits, now: datetime) -> list[str]:
    """Ask for the checks that are needed or due; the names of the storages. Raises redis.RedisError."""
    wanted = Q(needs_content_check=True)
    if limits.content_check_seconds:
        before = now - timedelta(seconds=limits.content_check_seconds)
        may_lose = [kind for kind, row in KINDS.items() if row.capabilities.may_lose_content]
        wanted |= Q(type__in=may_lose) & (
            Q(content_checked_at__lt=before) | Q(content_checked_at__isnull=True)
        )
    # One that does not answer is asked about when it does; the memory of a pool is its segments' business.
    rows = Storage.objects.filter(wanted, is_available=True, is_leaving=False)
    asked = []
    for storage in rows.exclude(type=StorageType.TAIR_MEMPOOL.value):
        request_check(client, [storage.number])
        Storage.objects.filter(pk=storage.pk, content_life=storage.content_life).update(
            needs_content_check=False, content_checked_at=now
        )
        asked.append(storage.name)
    return asked
