"""How full a storage is by its own capacity and watermarks, and which room is worth telling about."""

from __future__ import annotations

from dataclasses import dataclass

LOW_BELOW_HIGH = 0.05
"""Without a low watermark of its own it lies that far below the high one, or a tenth of it if less."""
STEPS = 64
"""Room is told in so many steps of the whole: it serves to compare storages, not to count bytes."""
WORTH_STEPS = 2
"""Room that changed by less is not told again."""


@dataclass(frozen=True, slots=True)
class Room:
    """Used bytes of a limit; `limit_bytes` None = there is none."""

    used_bytes: int
    limit_bytes: int | None

    @property
    def ratio(self) -> float:
        if self.limit_bytes is None:
            return 0.0
        return self.used_bytes / self.limit_bytes if self.limit_bytes > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Watermarks:
    """At or over `high` a storage takes no new blocks; below `low` it takes them again."""

    high: float
    low: float

    @classmethod
    def of(cls, high: float | None, low: float | None) -> Watermarks:
        """With the defaults for what is unset: high 1, low as LOW_BELOW_HIGH says."""
        top = 1.0 if high is None else high
        return cls(top, top - min(LOW_BELOW_HIGH, top / 10) if low is None else low)

    def is_over(self, ratio: float, *, was_over: bool) -> bool:
        return ratio >= self.high or (was_over and ratio >= self.low)


def fullest(rooms: list[Room]) -> Room:
    """The one of several limits that is used most. Raises ValueError without any."""
    return max(rooms, key=lambda room: room.ratio)


def free_room(rooms: list[Room], high: float) -> int | None:
    """Bytes left below the high watermark of every limit, in steps; None where there is no limit."""
    left = [
        (max(0, int(room.limit_bytes * high) - room.used_bytes), max(1, room.limit_bytes // STEPS))
        for room in rooms
        if room.limit_bytes is not None
    ]
    return min((free // step * step for free, step in left), default=None)


def is_worth_telling(told: int | None, now: int | None, limit_bytes: int) -> bool:
    """Whether room changed enough to be published again."""
    if told is None or now is None:
        return told is not now
    if (told == 0) != (now == 0):
        return True
    return abs(now - told) >= WORTH_STEPS * max(1, limit_bytes // STEPS)
