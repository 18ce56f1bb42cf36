"""The figures of the last 24 hours, left in Redis for the overview, which goes on without the database."""

from __future__ import annotations

import json
from typing import Any

import redis

from apps.usage.choices import KEPT_SECONDS, PLATFORM, Resolution
from apps.usage.models import Series
from apps.usage.selectors.amounts import amounts_form
from apps.usage.selectors.points import points_between, position
from kvcm_platform.core.points import Amounts
from kvcm_platform.index import keyspace

_STAYS_SECONDS = 3600
"""They are made anew each minute; when that stops, nothing is shown rather than something old."""


def day_publish(*, client: redis.Redis) -> dict[str, Any] | None:
    """Put them there; None before there are any. Raises redis.RedisError."""
    known = position()
    row = Series.objects.filter(kind=PLATFORM.kind.value).first()
    if known is None or row is None:
        return None
    day = KEPT_SECONDS[Resolution.MINUTE]
    begin = (known.seconds_done - day) // Resolution.MINUTE * Resolution.MINUTE
    total = Amounts()
    points = points_between([row.pk], begin, known.seconds_done, Resolution.MINUTE).get(row.pk, [])
    for point in points:
        total.add(point.amounts)
    figures = {
        "since": points[0].at if points else known.seconds_done,
        "until": known.seconds_done,
        **amounts_form(total),
    }
    client.set(keyspace.OVERVIEW_DAY, json.dumps(figures), ex=_STAYS_SECONDS)
    return figures
