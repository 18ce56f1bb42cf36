"""The REST form of savings."""

from __future__ import annotations

from typing import Any

from apps.optimizer_reports.selectors.savings import GroupSaving, SavingsOfMonth
from kvcm_platform.core.traffic_amounts import TrafficAmounts
from kvcm_platform.optimizer.savings import Saving


def group_saving_shown(group: GroupSaving) -> dict[str, Any]:
    return {
        "instance_group": group.group_name,
        "cost_model": group.cost_model or None,
        **_amounts(group.amounts, group.saving),
        "currency": group.currency,
        "month": f"{group.month:%Y-%m}",
        "since": group.since,
        "until": group.until,
        "mean_used_bytes": group.amounts.mean_bytes,
        "known_ratio": group.known_ratio,
    }


def savings_summary_shown(found: SavingsOfMonth) -> dict[str, Any]:
    return {
        "groups": len(found.groups),
        **_amounts(found.amounts, found.saving),
        "currency": found.currency,
        "month": f"{found.month:%Y-%m}",
        "since": found.since,
        "until": found.until,
    }


def _amounts(amounts: TrafficAmounts, worth: Saving | None) -> dict[str, Any]:
    names = ("prefill_seconds", "gpu_hours", "saved_money", "storage_money", "net_money")
    return {
        "requests": amounts.requests,
        "requested_tokens": amounts.requested_tokens,
        "hit_tokens": amounts.hit_tokens,
        "token_hit_rate": amounts.token_hit_rate,
        **{name: None if worth is None else getattr(worth, name) for name in names},
    }
