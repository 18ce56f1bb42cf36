"""Reclaim runs as REST and the live topic show them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.capacity.models import ReclaimRun
from apps.capacity.selectors import duration_of

_AS_THEY_ARE = (
    *("trigger", "state", "policy", "budget", "scopes", "asked_by", "planned_blocks", "planned_bytes"),
    *("chosen_blocks", "chosen_bytes", "freed_blocks", "freed_bytes", "failed_blocks", "failed_bytes"),
    *(
        "capacity_bytes",
        "used_before_bytes",
        "used_after_bytes",
        "oldest_use_at",
        "newest_use_at",
        "created_at",
        "began_at",
    ),
    *("marked_at", "ended_at", "rounds", "stop", "detail"),
)
_NO_REQUEST: dict[str, Any] = {
    **dict.fromkeys(("instance_id", "storage", "by"), ""),
    **dict.fromkeys(("bytes", "blocks", "percent", "idle_seconds"), 0),
}
SHARES_AT_MOST = 1000


def run_shown(run: ReclaimRun, now: datetime) -> dict[str, Any]:
    """The members of a list; `ReclaimRunOutput` describes them."""
    duration = duration_of(run, now)
    return {
        "id": run.run_id,
        "instance_group": run.group_name,
        "cancel_requested": run.is_cancel_wanted,
        **{name: getattr(run, name) for name in _AS_THEY_ARE},
        "request": None if run.request is None else {**_NO_REQUEST, **run.request},
        "duration_seconds": None if duration is None else duration.total_seconds(),
        "busy_seconds": run.busy_ms / 1000,
    }


def run_detail(run: ReclaimRun, now: datetime) -> dict[str, Any]:
    """The members of one alone: `ReclaimRunDetail`."""
    return {
        **run_shown(run, now),
        "by_instance": shares("instance_id", run.by_instance),
        "by_storage": shares("storage", run.by_storage),
    }


def shares(what: str, amounts: Mapping[str, list[int]]) -> list[dict[str, Any]]:
    """Name -> [blocks, bytes] as rows, the most bytes first."""
    ordered = sorted(amounts.items(), key=lambda item: (-item[1][1], item[0]))
    return [
        {what: name, "blocks": blocks, "bytes": size} for name, (blocks, size) in ordered[:SHARES_AT_MOST]
    ]
