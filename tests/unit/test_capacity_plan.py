"""What to add and what may go, by hand."""

from __future__ import annotations

from typing import Any

from kvcm_platform.core.capacity_plan import Advice, advice
from kvcm_platform.core.growth import Confidence, Growth, State, Trend, Turnover, outlook_of
from kvcm_platform.core.points import Levels

DAY = 86_400
MIB = 1 << 20


def said(state: State, used: int, limit: int | None, slope: float = 0.0, **changes: Any) -> Advice:
    """Of a storage with a high mark of 80 %, after a week of history."""
    most, span = changes.pop("most", slope), changes.pop("span", 7 * DAY)
    trend = Trend(state, slope, slope, most, span, 168, Confidence.HIGH)
    growth = Growth(trend, changes.pop("turnover", None))
    high = None if limit is None else limit * 8 // 10
    low = None if limit is None else limit * 7 // 10
    levels = Levels(used, 0, used, limit_bytes=limit, high_bytes=high, low_bytes=low)
    peak = changes.pop("peak", used)
    outlook = outlook_of(growth, levels)
    return advice("nfs_a", levels, growth, outlook, peak_bytes=peak, horizon_days=changes.pop("days", 30))


def test_what_grows_gets_what_it_will_need() -> None:
    """400 MiB and 10 a day are 700 after 30 days, for which 875 are needed at 80 %: 375 more than 500."""
    found = said(State.GROWING, 400 * MIB, 500 * MIB, 10 * MIB / DAY)
    assert (found.expected_bytes, found.needed_bytes, found.add_bytes) == (700 * MIB, 875 * MIB, 375 * MIB)
    assert found.removable_bytes == 0
    assert [(step.text, step.bytes // MIB) for step in found.steps] == [
        ("most used lately", 400),
        ("growth in 30 days: 10 MiB a day", 300),
        ("expected", 700),
        ("capacity that holds it at 80%", 875),
        ("capacity now", 500),
        ("to add", 375),
    ]
    assert found.sentence == (
        "nfs_a grows by 10 MiB a day and is over its high mark: add 375 MiB for the next 30 days."
    )


def test_when_it_gets_there_is_said() -> None:
    found = said(State.GROWING, 300 * MIB, 500 * MIB, 10 * MIB / DAY)
    assert found.sentence.startswith(
        "nfs_a grows by 10 MiB a day and reaches its high mark in 10 days: add 250 MiB"
    )


def test_what_may_be_taken_off_goes_by_the_upper_bound() -> None:
    """100 MiB, at most 2 a day more: 160 after 30 days, 200 at 80 %. Of 500 these may go but no more."""
    found = said(State.GROWING, 100 * MIB, 500 * MIB, MIB / DAY, most=2 * MIB / DAY)
    assert found.removable_bytes == 300 * MIB
    assert found.sentence == "nfs_a needs no more: 300 MiB may be taken off."
    assert said(State.STEADY, 100 * MIB, 500 * MIB, peak=200 * MIB).removable_bytes == 250 * MIB
    assert said(State.SHRINKING, 100 * MIB, 500 * MIB, -5 * MIB / DAY).removable_bytes == 375 * MIB


def test_a_quiet_hour_takes_nothing_away() -> None:
    found = said(State.STEADY, 100 * MIB, 500 * MIB, span=3600)
    assert (found.removable_bytes, found.add_bytes) == (0, 0)
    assert "known after a day" in found.sentence


def test_the_first_minutes_are_no_plan() -> None:
    found = said(State.GROWING, 100 * MIB, 500 * MIB, 10 * MIB / 60, span=900)
    assert found == Advice("There is too little history of nfs_a to say what it needs.")


def test_nothing_is_advised_where_nothing_is_known() -> None:
    assert said(State.UNKNOWN, 100 * MIB, 500 * MIB) == Advice(
        "There is too little history of nfs_a to say what it needs."
    )
    assert said(State.GROWING, 100 * MIB, None, 5.0) == Advice("nfs_a has no capacity to compare with.")


def test_a_peak_that_did_not_fit() -> None:
    found = said(State.STEADY, 100 * MIB, 500 * MIB, peak=480 * MIB)
    assert found.add_bytes == 100 * MIB
    assert found.sentence == "nfs_a was fuller than it should be: add 100 MiB for the next 30 days."


def test_what_reclaim_holds_is_told_by_how_long_blocks_stay() -> None:
    """One MiB/s leaves; an hour longer are 3600 of them, 4500 at 80 %."""
    turnover = Turnover(float(MIB), float(MIB), 7200.0)
    found = said(State.STEADY, 400 * MIB, 500 * MIB, turnover=turnover)
    assert found.bytes_per_hour_longer == 4500 * MIB
    assert found.removable_bytes == 0
    assert found.sentence == (
        "Reclaim holds nfs_a at its marks: a block stays for about 2 hours,"
        " and each hour longer takes 4.39 GiB more."
    )
