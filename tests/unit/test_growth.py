"""Slopes and times to full, against figures worked out by hand and against another way to compute them."""

from __future__ import annotations

import random
from itertools import combinations
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.growth import (
    Confidence,
    Growth,
    Outlook,
    State,
    Trend,
    Turnover,
    growth_from_dict,
    outlook_of,
    trend_of,
    turnover_of,
)
from kvcm_platform.core.points import Levels

HOUR = 1_800_000_000


def test_a_straight_line() -> None:
    trend = trend_of([(HOUR + 60 * n, 1000 + 600 * n) for n in range(61)])
    assert trend == Trend(State.GROWING, 10.0, 10.0, 10.0, 3600, 61, Confidence.HIGH)


def test_outliers_do_not_move_it() -> None:
    points = [(HOUR + 60 * n, 100_000 + 600 * n) for n in range(61)]
    points[10] = (points[10][0], 0)
    points[40] = (points[40][0], 10_000_000)
    assert trend_of(points).bytes_per_second == pytest.approx(10.0)


def test_noise_about_a_level_does_not_grow() -> None:
    chance = random.Random(1)
    trend = trend_of([(HOUR + 60 * n, 100_000 + chance.randint(-5000, 5000)) for n in range(61)])
    assert trend.state is State.STEADY
    assert trend.least_bytes_per_second < 0 < trend.most_bytes_per_second


def test_the_teeth_of_a_saw_do_not_grow() -> None:
    """Up to the high mark, down to the low one, over and over, as reclaim holds it."""
    assert trend_of([(HOUR + 60 * n, 78_000 + 500 * (n % 8)) for n in range(61)]).state is State.STEADY


def test_what_shrinks_and_what_is_too_short() -> None:
    assert trend_of([(HOUR + 60 * n, 100_000 - 600 * n) for n in range(61)]).state is State.SHRINKING
    assert trend_of([(HOUR + 60 * n, 600 * n) for n in range(7)]).state is State.UNKNOWN
    assert trend_of([(HOUR + n, 600 * n) for n in range(100)]).state is State.UNKNOWN
    assert trend_of([]).state is State.UNKNOWN


def test_next_to_nothing_is_nothing() -> None:
    """A tenth of a percent in an hour, however regular."""
    assert trend_of([(HOUR + 60 * n, 1_000_000 + 16 * n) for n in range(61)]).state is State.STEADY


@given(st.lists(st.integers(0, 10**12), min_size=8, max_size=40))
def test_the_median_of_all_slopes(sizes: list[int]) -> None:
    points = [(HOUR + 60 * n, size) for n, size in enumerate(sizes)]
    slopes = [(b - a) / (s - r) for (r, a), (s, b) in combinations(points, 2)]
    trend = trend_of(points)
    assert trend.bytes_per_second == pytest.approx(median(slopes))
    assert trend.least_bytes_per_second <= trend.bytes_per_second <= trend.most_bytes_per_second


def test_the_bounds_hold_nine_times_out_of_ten() -> None:
    """Lines of a known slope with noise: how often it lies within the bounds."""
    chance, hits = random.Random(7), 0
    for _ in range(400):
        points = [(HOUR + 60 * n, round(10_000 + 300 * n + chance.gauss(0, 3000))) for n in range(40)]
        trend = trend_of(points)
        hits += trend.least_bytes_per_second <= 5.0 <= trend.most_bytes_per_second
    assert 0.85 <= hits / 400 <= 0.95


def levels(live: int, **members: int) -> Levels:
    return Levels(used_bytes=live, serving_bytes=live, **members)


def test_times_to_the_mark_and_to_full() -> None:
    growth = Growth(Trend(State.GROWING, 10.0, 8.0, 20.0, 3600, 61, Confidence.MEDIUM))
    now = Levels(650, 0, 600, 50, 30, 6, limit_bytes=1000, high_bytes=800, low_bytes=750)
    # 800 - (600 + 30) are left to the mark, which does not count the pending; 1000 - (650 + 30) to the limit.
    assert outlook_of(growth, now) == Outlook(State.GROWING, 17.0, 32.0, 16.0, 40.0)
    assert outlook_of(growth, now, room_bytes=100).seconds_to_full == 10.0
    assert outlook_of(growth, now, room_bytes=10_000).seconds_to_full == 32.0
    assert outlook_of(growth, levels(600)) == Outlook(State.GROWING)
    assert outlook_of(growth, levels(2000, limit_bytes=1000)).seconds_to_full == 0.0


@pytest.mark.parametrize("state", [State.STEADY, State.SHRINKING, State.UNKNOWN])
def test_what_does_not_grow_does_not_get_full(state: State) -> None:
    growth = Growth(Trend(state, 10.0, -8.0, 20.0, 3600, 61))
    assert outlook_of(growth, levels(600, limit_bytes=1000, high_bytes=800)) == Outlook(state)


def test_reclaim_holds_a_level() -> None:
    held = Growth(Trend(State.STEADY, 0.0, -1.0, 1.0, 3600, 61), Turnover(50.0, 50.0, 16.0))
    marks = {"limit_bytes": 1000, "high_bytes": 820, "low_bytes": 780}
    assert outlook_of(held, levels(790, **marks)).state is State.HELD
    assert outlook_of(held, levels(300, **marks)).state is State.STEADY
    idle = Growth(held.trend, Turnover(0.0, 0.0, None))
    assert outlook_of(idle, levels(790, **marks)).state is State.STEADY


def test_turnover() -> None:
    """7200 bytes written in an hour, 3600 more there: the other 3600 left; a byte in 1000 a second."""
    points = [(HOUR, 0), (HOUR + 1800, 1800), (HOUR + 3600, 3600)]
    assert turnover_of(points, 7200) == Turnover(2.0, 1.0, 1800.0)
    assert turnover_of(points, 3600) == Turnover(1.0, 0.0, None)
    assert turnover_of(points[:1], 5) is None
    # Bytes written are a mean times blocks: a hundredth too much is no departure.
    assert turnover_of(points, 3636) == Turnover(1.01, 0.0, None)


def test_growth_is_kept_as_it_is() -> None:
    growth = Growth(trend_of([(HOUR + 60 * n, 600 * n) for n in range(61)]), Turnover(1.0, 0.5, 2.0))
    assert growth_from_dict(growth.to_dict()) == growth
    assert growth_from_dict(Growth().to_dict()) == growth_from_dict(None) == Growth()
