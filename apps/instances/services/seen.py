"""When instances were last heard of."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from apps.instances.models import Instance


def instances_note_seen(*, instance_ids: Collection[str], at: datetime) -> int:
    """Move `last_seen_at` of these instances forward; returns how many rows changed."""
    if not instance_ids:
        return 0
    return Instance.objects.filter(instance_id__in=instance_ids).update(last_seen_at=at)
