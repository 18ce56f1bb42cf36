"""Puts together what a page of storages shows: rows, the groups that name them, usage from the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import redis
import structlog

from apps.common.actor import Actor
from apps.common.redis_client import figures_client
from apps.storages.models import Storage
from apps.storages.selectors import groups_naming
from apps.storages.usage import RecentUsage, UsageByNumber
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import spec_shown
from kvcm_platform.index.stats import StorageUsage

log = structlog.get_logger(__name__)
_recent = RecentUsage(seconds=0.3)


def storages_shown(rows: Sequence[Storage], *, acting: Actor) -> list[dict[str, Any]]:
    """The REST form of a page of storages: one query for groups, one look at the index."""
    naming = groups_naming([row.name for row in rows], acting=acting)
    usages = _usages()
    return [_shown(row, naming.get(row.name, []), usages) for row in rows]


def _shown(row: Storage, groups: list[str], usages: UsageByNumber | None) -> dict[str, Any]:
    usage = None if usages is None else asdict(usages.get(row.number, StorageUsage()))
    return {
        "name": row.name,
        "number": row.number,
        "type": row.type,
        "spec": spec_shown(StorageType(row.type), row.spec),
        "enabled": row.is_enabled,
        "draining": row.is_draining,
        "check_storage_available_when_open": row.check_storage_available_when_open,
        "weight": row.weight,
        "capacity_bytes": row.capacity_bytes,
        "high_watermark_ratio": row.high_watermark_ratio,
        "low_watermark_ratio": row.low_watermark_ratio,
        "maintenance_note": row.maintenance_note,
        "health": {
            "state": row.health_state,
            "message": row.health_message,
            "checked_at": row.health_checked_at,
            "latency_ms": row.health_latency_ms,
        },
        "usage": usage,
        "groups": groups,
        "version": row.version,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _usages() -> UsageByNumber | None:
    try:
        return _recent.get(figures_client())
    except redis.RedisError as error:
        log.warning("usage is not shown: the index does not answer", error=str(error))
        return None
