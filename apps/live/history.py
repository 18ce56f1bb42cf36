"""Ten minutes of the overview, one point every two seconds, kept in Redis.

Each web process offers a point for each slot of two seconds; the first one is kept, so that all
show the same curve and a restarted process has it at once.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import redis

from kvcm_platform.index import keyspace

SLOT_SECONDS = 2
KEPT_SECONDS = 600
_FIGURES = ("requests_per_second", "requested_blocks", "hit_blocks", "used_bytes")

Point = dict[str, Any]


class History:
    """The points of the last ten minutes, oldest first."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._points: deque[tuple[int, Point]] = deque()
        self._is_loaded = False

    @property
    def newest(self) -> Point | None:
        return self._points[-1][1] if self._points else None

    def points(self, now: float) -> list[Point]:
        return [point for slot, point in self._points if slot * SLOT_SECONDS > now - KEPT_SECONDS]

    def note(self, figures: Mapping[str, Any], now: float) -> None:
        """Keep the figures as the current slot's point, unless it has one."""
        # Without Redis the history goes on in this process and is whole again later.
        with suppress(redis.RedisError, OSError):
            self._load()
        slot = int(now // SLOT_SECONDS)
        if self._points and self._points[-1][0] >= slot:
            return
        at = datetime.fromtimestamp(slot * SLOT_SECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        point = {"at": at, **{name: figures[name] for name in _FIGURES}}
        with suppress(redis.RedisError, OSError):
            point = self._agreed(slot, point)
        self._points.append((slot, point))
        while self._points[0][0] * SLOT_SECONDS <= now - KEPT_SECONDS:
            self._points.popleft()

    def _load(self) -> None:
        if self._is_loaded:
            return
        found = {
            int(slot): json.loads(text)
            for slot, text in self._client.hgetall(keyspace.OVERVIEW_HISTORY).items()
        }
        self._points = deque(sorted(found.items()))
        self._is_loaded = True

    def _agreed(self, slot: int, point: Point) -> Point:
        """Offer the point; return the one that all processes show. Old slots go as new ones come."""
        oldest = slot - KEPT_SECONDS // SLOT_SECONDS
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hsetnx(keyspace.OVERVIEW_HISTORY, str(slot), json.dumps(point))
        pipeline.hget(keyspace.OVERVIEW_HISTORY, str(slot))
        # Some slots more than one: the platform may have been down while they fell due.
        pipeline.hdel(keyspace.OVERVIEW_HISTORY, *(str(old) for old in range(oldest - 20, oldest)))
        pipeline.expire(keyspace.OVERVIEW_HISTORY, KEPT_SECONDS * 2)
        _, kept, _, _ = pipeline.execute()
        agreed: Point = json.loads(kept)
        return agreed
