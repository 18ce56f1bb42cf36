"""When reclaim is behind. A busy cache lives around its high mark; above half the way from there to its limit
more comes than goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvcm_platform.core.registry import GroupEntry

from .marks import mark_of


@dataclass(frozen=True, slots=True)
class Pressure:
    """Bytes of a group against its limit. `live` = written, served and reserved, as marks compare it."""

    live: int
    high: int
    limit: int

    @property
    def is_behind(self) -> bool:
        return 2 * self.live > self.high + self.limit

    @property
    def ratio(self) -> float:
        return self.live / self.limit if self.limit else 1.0


def pressure_of(group: GroupEntry, live: int) -> Pressure:
    """One with a ratio above 1, or without any mark, is behind only when its limit is below what is live."""
    limit = group.quota.capacity_bytes
    high = mark_of(group.reclaim, limit, used_bytes=group.reclaim.used_bytes).high
    return Pressure(live, high, limit)
