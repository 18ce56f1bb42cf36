"""The savings of this month so far, left in Redis for the overview, which goes on without the database."""

from __future__ import annotations

import json
from typing import Any

import redis

from apps.common.actor import Actor
from apps.optimizer_reports.selectors.savings import SavingsOfMonth, month_of, savings_of_month
from apps.usage.selectors.amounts_by_group import points_done
from kvcm_platform.index import keyspace

_STAYS_SECONDS = 3600
"""They are made anew each minute; when that stops, nothing is shown rather than something old."""
_WATCHER = Actor.system("optimizer")


def savings_publish(*, client: redis.Redis) -> dict[str, Any] | None:
    """Put them there; None before there is a history. Raises redis.RedisError."""
    done = points_done()
    if done is None:
        return None
    figures = overview_figures(savings_of_month(month_of(done), acting=_WATCHER))
    client.set(keyspace.OVERVIEW_SAVINGS, json.dumps(figures), ex=_STAYS_SECONDS)
    return figures


def overview_figures(found: SavingsOfMonth) -> dict[str, Any]:
    """JSON-ready; times are unix seconds. Money is None where no group has a cost model."""
    worth = found.saving
    return {
        "month": f"{found.month:%Y-%m}",
        "since": int(found.since.timestamp()),
        "until": int(found.until.timestamp()),
        "hit_tokens": found.amounts.hit_tokens,
        "token_hit_rate": found.amounts.token_hit_rate,
        "currency": found.currency,
        "gpu_hours": None if worth is None else worth.gpu_hours,
        "saved_money": None if worth is None else worth.saved_money,
        "storage_money": None if worth is None else worth.storage_money,
        "net_money": None if worth is None else worth.net_money,
    }
