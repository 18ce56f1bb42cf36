"""What to add to a storage or a group, or may be taken off it, with the arithmetic. Pure.

What counts is the most that was used lately, and what comes on top until the horizon. Where nothing is
known of growth nothing is advised: a quiet hour is no reason to take disks away.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from kvcm_platform.core.growth import Growth, Outlook, State
from kvcm_platform.core.points import Levels
from kvcm_platform.core.sizes import sized

DAY = 86_400
_LEAST_HISTORY_SECONDS = DAY
"""Of less nobody can tell what may be taken off."""
_LEAST_SECONDS = 3600
"""The first minutes of an engine, times thirty days, are no plan."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the arithmetic."""

    text: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Advice:
    """`add_bytes` and `removable_bytes` are 0 where nothing is to be done or nothing is known.

    `expected_bytes` is what will be used at the horizon, `needed_bytes` the capacity that holds it at its
    fill ratio; what may be taken off is by the upper bound of the growth. `bytes_per_hour_longer`: what each
    hour costs that blocks are to stay longer, where reclaim takes them away now.
    """

    sentence: str
    steps: tuple[Step, ...] = ()
    expected_bytes: int | None = None
    needed_bytes: int | None = None
    fill_ratio: float = 1.0
    add_bytes: int = 0
    removable_bytes: int = 0
    bytes_per_hour_longer: int | None = None


def advice(
    name: str, levels: Levels, growth: Growth, outlook: Outlook, *, peak_bytes: int, horizon_days: int
) -> Advice:
    """`peak_bytes`: the most that was used in the time that the growth is of."""
    trend, limit = growth.trend, levels.limit_bytes
    if limit is None:
        return Advice(f"{name} has no capacity to compare with.")
    if trend.state is State.UNKNOWN or trend.span_seconds < _LEAST_SECONDS:
        return Advice(f"There is too little history of {name} to say what it needs.")
    fill = levels.high_bytes / limit if levels.high_bytes is not None and limit else 1.0
    peak = max(peak_bytes, levels.counted_bytes)
    rate, bound = (
        (trend.bytes_per_second, trend.most_bytes_per_second) if trend.state is State.GROWING else (0.0, 0.0)
    )
    seconds = horizon_days * DAY
    growing, most = ceil(rate * seconds), ceil(max(rate, bound) * seconds)
    expected = peak + growing
    needed, needed_at_most = _whole(expected, fill), _whole(peak + most, fill)
    is_sure = trend.span_seconds >= _LEAST_HISTORY_SECONDS
    add = max(0, needed - limit)
    removable = max(0, limit - needed_at_most) if is_sure and outlook.state is not State.HELD else 0
    steps = (
        Step("most used lately", peak),
        Step(f"growth in {_days(horizon_days)}: {sized(round(rate * DAY))} a day", growing),
        Step("expected", expected),
        Step(f"capacity that holds it at {fill:.0%}", needed),
        Step("capacity now", limit),
        Step("to add" if add else "may be taken off", add or removable),
    )
    turnover = growth.turnover
    longer = None
    if outlook.state is State.HELD and turnover is not None:
        longer = ceil(turnover.left_bytes_per_second * 3600 / fill)
    return Advice(
        _sentence(name, outlook, growth, add, removable, longer, horizon_days, is_sure=is_sure),
        *(steps, expected, needed, fill, add, removable, longer),
    )


def _whole(size: int, fill: float) -> int:
    return ceil(size / fill) if fill > 0 else size


def _days(count: int) -> str:
    return "a day" if count == 1 else f"{count} days"


def _time(seconds: float) -> str:
    for length, unit in ((DAY, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}s"
    return f"{seconds:.0f} seconds"


def _sentence(
    name: str,
    outlook: Outlook,
    growth: Growth,
    add: int,
    removable: int,
    longer: int | None,
    horizon_days: int,
    *,
    is_sure: bool,
) -> str:
    turnover = growth.turnover
    if longer is not None and turnover is not None and turnover.residence_seconds is not None:
        return (
            f"Reclaim holds {name} at its marks: a block stays for about {_time(turnover.residence_seconds)},"
            f" and each hour longer takes {sized(longer)} more."
        )
    if add:
        when = outlook.seconds_to_high if outlook.seconds_to_high is not None else outlook.seconds_to_full
        what = "its high mark" if outlook.seconds_to_high is not None else "its capacity"
        pace = f"{name} grows by {sized(round(growth.trend.bytes_per_second * DAY))} a day"
        reaches = f" and reaches {what} in {_time(when)}" if when else f" and is over {what}"
        is_growing = growth.trend.state is State.GROWING
        begin = pace + reaches if is_growing else f"{name} was fuller than it should be"
        return f"{begin}: add {sized(add)} for the next {_days(horizon_days)}."
    if removable:
        return f"{name} needs no more: {sized(removable)} may be taken off."
    if not is_sure:
        return (
            f"{name} has room for the next {_days(horizon_days)}; what may be taken off is known after a day."
        )
    return f"{name} is right as it is for the next {_days(horizon_days)}."
