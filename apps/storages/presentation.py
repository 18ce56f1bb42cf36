"""Puts together what a page of storages shows: rows, the groups that name them, usage from the index."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import redis
import structlog

from apps.common.actor import Actor
from apps.common.redis_client import figures_client, index_client
from apps.storages.choices import DepartureKind
from apps.storages.models import Storage, StorageSegment
from apps.storages.selectors import groups_naming
from apps.storages.usage import ListedOrphans, RecentUsage, UsageByNumber, orphans_by_storage, usage_of
from kvcm_platform.core.departure import eta_seconds, progress_ratio
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import spec_shown
from kvcm_platform.index.stats import StorageUsage

log = structlog.get_logger(__name__)
_recent = RecentUsage(seconds=0.3)


def storages_shown(rows: Sequence[Storage], *, acting: Actor) -> list[dict[str, Any]]:
    """The REST form of a page of storages: one query for groups, one look at the index."""
    naming = groups_naming([row.name for row in rows], acting=acting)
    usages, orphans = _usages(), _orphans(rows)
    return [
        {**_shown(row, naming.get(row.name, []), usages), "orphans": orphans and asdict(orphans[row.pk])}
        for row in rows
    ]


def _shown(row: Storage, groups: list[str], usages: UsageByNumber | None) -> dict[str, Any]:
    usage = None if usages is None else usage_of(row, usages)
    return {
        "name": row.name,
        "number": row.number,
        "type": row.type,
        "spec": spec_shown(StorageType(row.type), row.spec),
        "enabled": row.is_enabled,
        "draining": row.is_draining,
        "leaving": row.is_leaving,
        "abandoned": row.is_abandoned,
        "departure": _departure(row, usage),
        "check_storage_available_when_open": row.check_storage_available_when_open,
        "weight": row.weight,
        "capacity_bytes": row.capacity_bytes,
        "high_watermark_ratio": row.high_watermark_ratio,
        "low_watermark_ratio": row.low_watermark_ratio,
        "maintenance_note": row.maintenance_note,
        "health": _health(row),
        "usage": None if usage is None else _usage_shown(usage),
        "segments": [_segment(segment, usages) for segment in row.segments.all()],
        "groups": groups,
        "version": row.version,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _health(row: Storage) -> dict[str, Any]:
    return {
        "state": row.health_state,
        "message": row.health_message,
        "checked_at": row.health_checked_at,
        "latency_ms": row.health_latency_ms,
        "failures_in_row": row.failures_in_row,
        "successes_in_row": row.successes_in_row,
        "full": row.is_full,
        "full_reason": row.full_reason,
        "over_capacity": row.is_over_capacity,
        "device_used_bytes": row.device_used_bytes,
        "device_capacity_bytes": row.device_capacity_bytes,
        "free_bytes": row.free_bytes,
    }


def _usage_shown(usage: StorageUsage) -> dict[str, int]:
    return {
        "used_bytes": usage.used_bytes,
        "pending_bytes": usage.pending_bytes,
        "blocks": usage.blocks,
    }


def _departure(row: Storage, usage: StorageUsage | None) -> dict[str, Any] | None:
    if row.departing_since is None:
        return None
    shown: dict[str, Any] = {
        "kind": DepartureKind.LEAVING if row.is_leaving else DepartureKind.DRAINING,
        "since": row.departing_since,
        "drained_at": row.drained_at,
        "blocks_at_start": row.departing_from_blocks,
        "bytes_at_start": row.departing_from_bytes,
        "blocks_left": None if usage is None else usage.blocks,
        "bytes_left": None if usage is None else usage.used_bytes,
        "progress_ratio": None,
        "bytes_per_second": None,
        "eta_seconds": None,
    }
    if usage is not None:
        left, mark = usage.used_bytes, row.departing_mark
        rate = None if mark is None else mark.rate(time.time(), left)
        from_bytes = left if row.departing_from_bytes is None else row.departing_from_bytes
        shown["progress_ratio"] = progress_ratio(from_bytes, left)
        shown["bytes_per_second"] = rate
        shown["eta_seconds"] = eta_seconds(left, rate)
    return shown


def _segment(segment: StorageSegment, usages: UsageByNumber | None) -> dict[str, Any]:
    return {
        "number": segment.number,
        "node_id": segment.node_id,
        "segment_id": segment.segment_id,
        "address": segment.address,
        "state": segment.state,
        "size_bytes": segment.size_bytes,
        "used_bytes": segment.used_bytes,
        "usage": None if usages is None else _usage_shown(usages.get(segment.number, StorageUsage())),
        "found_at": segment.found_at,
        "seen_at": segment.seen_at,
        "lost_at": segment.lost_at,
    }


def _orphans(rows: Sequence[Storage]) -> dict[int, ListedOrphans] | None:
    try:
        return orphans_by_storage(index_client(), rows)
    except redis.RedisError:
        return None


def _usages() -> UsageByNumber | None:
    try:
        return _recent.get(figures_client())
    except redis.RedisError as error:
        log.warning("usage is not shown: the index does not answer", error=str(error))
        return None
