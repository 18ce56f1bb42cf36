"""How full a storage is by its own capacity and watermarks, and which room is worth telling about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

LOW_BELOW_HIGH = Fraction(1, 20)
"""Without a low watermark of its own it lies that far below the high one, or a tenth of it if less."""
LOW_OF_WHAT_OTHERS_LEAVE = 0.9
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
        return cls(top, top - min(float(LOW_BELOW_HIGH), top / 10) if low is None else low)

    def is_over(self, ratio: float, *, was_over: bool) -> bool:
        return ratio >= self.high or (was_over and ratio >= self.low)


@dataclass(frozen=True, slots=True)
class ByteMarks:
    """Watermarks in live bytes of the index: at `high` or more groups give blocks back, down to `low`."""

    high: int
    low: int

    @classmethod
    def of(
        cls, marks: Watermarks, *, held_bytes: int, own: Room | None, device: Room | None
    ) -> ByteMarks | None:
        """The tightest of a storage's own capacity and its device; None where neither says anything.

        Of a device the index may hold what it holds now (`held_bytes`, pending deletions included), more or
        less by as much as the device is away from its mark: others may use it as well. Where they alone
        use more than the high mark nothing is gained by giving blocks back; where they use more than the
        low one, a tenth of what the index may hold has to do.
        """
        found = []
        if own is not None and own.limit_bytes is not None:
            found.append((marks.high * own.limit_bytes, marks.low * own.limit_bytes))
        if device is not None and device.limit_bytes:
            others = device.used_bytes - held_bytes
            high, low = marks.high * device.limit_bytes - others, marks.low * device.limit_bytes - others
            if high > 0:
                found.append((high, low if low > 0 else LOW_OF_WHAT_OTHERS_LEAVE * high))
        if not found:
            return None
        highs, lows = zip(*found, strict=True)
        # Rounded first: 0.29 of 100 is a little less than 29 in binary. Below the low watermark, not at
        # it, a full storage takes blocks again.
        return cls(math.ceil(round(min(highs), 3)), max(0, math.ceil(round(min(lows), 3)) - 1))

    def is_over(self, live_bytes: int) -> bool:
        return live_bytes >= self.high and live_bytes > self.low


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
