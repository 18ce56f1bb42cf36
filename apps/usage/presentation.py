"""The REST and live form of usage, plans and quotas."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from apps.usage.choices import RowKind
from apps.usage.selectors.now import UsageRow
from apps.usage.selectors.plan import PlanRow
from kvcm_platform.core.growth import Growth, Outlook
from kvcm_platform.core.points import Levels

_SECONDS = ("seconds_to_high", "seconds_to_full", "earliest_seconds_to_full", "latest_seconds_to_full")


def usage_shown(row: UsageRow) -> dict[str, Any]:
    levels = row.levels
    return {
        "kind": row.key.kind.value,
        "name": row.key.name,
        "storage_type": row.storage_type or None,
        "used_bytes": None if levels is None else levels.used_bytes,
        "live_bytes": None if levels is None else levels.live_bytes,
        "reserved_bytes": _reserved(row),
        "pending_bytes": None if levels is None else levels.pending_bytes,
        "blocks": None if levels is None else levels.blocks,
        **_limits(levels),
        "device_free_bytes": row.device_free_bytes,
        "growth": None if row.growth is None else growth_shown(row.growth, row.outlook),
        **_seconds(row.outlook),
    }


def _reserved(row: UsageRow) -> int | None:
    """Reservations name a type of storage and no storage."""
    is_known = row.levels is not None and row.key.kind is not RowKind.STORAGE
    return row.levels.reserved_bytes if is_known and row.levels is not None else None


def _limits(levels: Levels | None) -> dict[str, int | None]:
    names = ("limit_bytes", "high_bytes", "low_bytes")
    return {name: None if levels is None else getattr(levels, name) for name in names}


def _seconds(outlook: Outlook | None) -> dict[str, float | None]:
    return {name: None if outlook is None else getattr(outlook, name) for name in _SECONDS}


def growth_shown(growth: Growth, outlook: Outlook | None) -> dict[str, Any]:
    """The trend, with the state that levels make of it."""
    return {**growth.to_dict(), "state": growth.trend.state if outlook is None else outlook.state}


def plan_shown(row: PlanRow, horizon_days: int) -> dict[str, Any]:
    seconds = _seconds(row.outlook)
    return {
        "kind": row.key.kind.value,
        "name": row.key.name,
        "horizon_days": horizon_days,
        "used_bytes": None if row.levels is None else row.levels.used_bytes,
        "peak_bytes": row.peak_bytes,
        "capacity_bytes": None if row.levels is None else row.levels.limit_bytes,
        "growth": growth_shown(row.growth, row.outlook),
        "seconds_to_high": seconds["seconds_to_high"],
        "seconds_to_full": seconds["seconds_to_full"],
        "advice": None if row.advice is None else asdict(row.advice),
    }


def quota_shown(row: UsageRow) -> dict[str, Any]:
    levels = row.levels
    return {
        "instance_group": row.key.name,
        "storage_type": row.storage_type or None,
        "limit_bytes": row.quota_bytes,
        "used_bytes": None if levels is None else levels.used_bytes,
        "reserved_bytes": None if levels is None else levels.reserved_bytes,
        "pending_bytes": None if levels is None else levels.pending_bytes,
    }
