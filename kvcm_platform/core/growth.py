"""How fast something grows, and when it will be full. Pure: no database, no clock.

The slope is that of Theil and Sen: the median of the slopes between all pairs of points, which a few
outliers (a trim, a restart) do not move. Its bounds are Sen's, at 90 %: where they lie on both sides of
zero nothing is said to grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any

import numpy as np

from kvcm_platform.core.points import Levels

LEAST_POINTS = 8
LEAST_SECONDS = 120
_Z = 1.645
"""Of the standard normal distribution: 90 % lie within."""
_NEGLIGIBLE = 0.002
"""A change over the whole span that is a smaller part of what is held is none."""
_INEXACT = 0.02
"""Of what was written: its bytes are a mean times blocks, so less than this did not leave for certain."""
_SURE_SECONDS, _FAIR_SECONDS = 3600, 900
_SURE_SPREAD, _FAIR_SPREAD = 0.25, 0.5
_NEAR_LOW = 0.95
"""Reclaim holds what lies no further below the low mark than this."""


class State(StrEnum):
    """UNKNOWN: too little history. HELD: reclaim takes away what comes, so that the level stays."""

    UNKNOWN = "unknown"
    STEADY = "steady"
    GROWING = "growing"
    SHRINKING = "shrinking"
    HELD = "held"


class Confidence(StrEnum):
    """HIGH: over an hour, bounds within a quarter of the slope. MEDIUM: a quarter of an hour, within half."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Trend:
    """Bytes a second over the newest `span_seconds` of history, and between what the slope lies at 90 %."""

    state: State = State.UNKNOWN
    bytes_per_second: float = 0.0
    least_bytes_per_second: float = 0.0
    most_bytes_per_second: float = 0.0
    span_seconds: int = 0
    points: int = 0
    confidence: Confidence = Confidence.LOW


@dataclass(frozen=True, slots=True)
class Turnover:
    """What comes and goes, on average over the span of the trend.

    What left is what was written and is not there any more, for whatever reason. `residence_seconds` is how
    long a byte stays at that rate; None while nothing leaves.
    """

    written_bytes_per_second: float
    left_bytes_per_second: float
    residence_seconds: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """What is known of a series' change. `turnover` is that of groups: traffic names no storage."""

    trend: Trend = Trend()
    turnover: Turnover | None = None

    def to_dict(self) -> dict[str, Any]:
        trend = {name: getattr(self.trend, name) for name in Trend.__dataclass_fields__}
        turnover = self.turnover
        return {
            **trend,
            "turnover": None
            if turnover is None
            else {name: getattr(turnover, name) for name in Turnover.__dataclass_fields__},
        }


def growth_from_dict(data: Mapping[str, Any] | None) -> Growth:
    """The inverse of `Growth.to_dict`; without data nothing is known."""
    if data is None:
        return Growth()
    values = dict(data)
    turnover = values.pop("turnover")
    values["state"], values["confidence"] = State(values["state"]), Confidence(values["confidence"])
    return Growth(Trend(**values), None if turnover is None else Turnover(**turnover))


def trend_of(points: Sequence[tuple[int, int]]) -> Trend:
    """Of (unix seconds, bytes) in order of time. At most some hundred: all pairs are compared."""
    count = len(points)
    span = points[-1][0] - points[0][0] if points else 0
    if count < LEAST_POINTS or span < LEAST_SECONDS:
        return Trend(span_seconds=span, points=count)
    times, sizes = np.array(points, dtype=np.float64).T
    earlier, later = np.triu_indices(count, 1)
    slopes = np.sort((sizes[later] - sizes[earlier]) / (times[later] - times[earlier]))
    slope = float(np.median(slopes))
    # Sen (1968): how far from the middle of the sorted slopes the bounds of the interval lie.
    spread = _Z * sqrt(count * (count - 1) * (2 * count + 5) / 18)
    least = float(slopes[max(0, int((len(slopes) - spread) / 2))])
    most = float(slopes[min(len(slopes) - 1, int((len(slopes) + spread) / 2))])
    state = State.STEADY
    if abs(slope) * span > _NEGLIGIBLE * float(sizes.max()):
        if least > 0:
            state = State.GROWING
        elif most < 0:
            state = State.SHRINKING
    return Trend(state, slope, least, most, span, count, _confidence(state, slope, least, most, span))


def _confidence(state: State, slope: float, least: float, most: float, span: int) -> Confidence:
    is_moving = state in (State.GROWING, State.SHRINKING)
    spread = (most - least) / 2 / abs(slope) if is_moving else 0.0
    if span >= _SURE_SECONDS and spread <= _SURE_SPREAD:
        return Confidence.HIGH
    return Confidence.MEDIUM if span >= _FAIR_SECONDS and spread <= _FAIR_SPREAD else Confidence.LOW


def turnover_of(points: Sequence[tuple[int, int]], written_bytes: int) -> Turnover | None:
    """Of the same points, with what was written from the first to the last; None for no time at all."""
    span = points[-1][0] - points[0][0] if points else 0
    if not span:
        return None
    gone = written_bytes - (points[-1][1] - points[0][1])
    left = gone / span if gone > _INEXACT * written_bytes else 0.0
    mean = sum(size for _, size in points) / len(points)
    return Turnover(written_bytes / span, left, mean / left if left else None)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What comes of it. Seconds are None where it does not grow, or where there is no mark or limit.

    `seconds_to_high` is until reclaim begins, which then keeps it from getting full; the earliest and the
    latest `seconds_to_full` are by the bounds of the slope, None = never.
    """

    state: State
    seconds_to_high: float | None = None
    seconds_to_full: float | None = None
    earliest_seconds_to_full: float | None = None
    latest_seconds_to_full: float | None = None


def outlook_of(growth: Growth, levels: Levels, *, room_bytes: int | None = None) -> Outlook:
    """By the levels of now. `room_bytes`: what a device has left, where that is less than the limit says."""
    trend, turnover = growth.trend, growth.turnover
    state = trend.state
    is_near = levels.low_bytes is not None and levels.live_bytes >= _NEAR_LOW * levels.low_bytes
    if state is State.STEADY and is_near and turnover is not None and turnover.left_bytes_per_second > 0:
        state = State.HELD
    if state is not State.GROWING:
        return Outlook(state)
    rooms = [] if room_bytes is None else [room_bytes]
    if levels.limit_bytes is not None:
        rooms.append(levels.limit_bytes - levels.counted_bytes)
    room = max(0, min(rooms)) if rooms else None
    to_high = None if levels.high_bytes is None else max(0, levels.high_bytes - levels.live_bytes)
    return Outlook(
        state,
        seconds_to_high=_seconds(to_high, trend.bytes_per_second),
        seconds_to_full=_seconds(room, trend.bytes_per_second),
        earliest_seconds_to_full=_seconds(room, trend.most_bytes_per_second),
        latest_seconds_to_full=_seconds(room, trend.least_bytes_per_second),
    )


def _seconds(room: int | None, slope: float) -> float | None:
    return None if room is None or slope <= 0 else room / slope
