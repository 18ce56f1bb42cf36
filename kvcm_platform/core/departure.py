"""How a storage empties: how far it is, how fast it goes, and when it may be done."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_SECONDS = 300.0
"""Rates are of about so long: a mark is set, and moved when it is that old."""
MIN_SECONDS = 5.0
"""A rate over less says nothing."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was left at a moment, and the rate before it; None where it is not known yet."""

    at: float
    bytes_left: int
    bytes_per_second: float | None = None

    def moved(self, at: float, bytes_left: int) -> Mark:
        """The mark after another look, moved where it has grown old."""
        if at - self.at < WINDOW_SECONDS:
            return self
        return Mark(at, bytes_left, self.rate(at, bytes_left))

    def rate(self, at: float, bytes_left: int) -> float | None:
        """Bytes that went per second, never below 0: what is written meanwhile is no progress."""
        seconds = at - self.at
        if seconds < MIN_SECONDS:
            return self.bytes_per_second
        return max(0.0, (self.bytes_left - bytes_left) / seconds)


def progress_ratio(bytes_at_start: int, bytes_left: int) -> float:
    """The share that went, 0..1; of nothing everything did."""
    return 1.0 if bytes_at_start <= 0 else min(1.0, max(0.0, 1 - bytes_left / bytes_at_start))


def eta_seconds(bytes_left: int, bytes_per_second: float | None) -> float | None:
    """Seconds until nothing is left at this rate; None where it does not get on."""
    if bytes_left <= 0:
        return 0.0
    return bytes_left / bytes_per_second if bytes_per_second else None
