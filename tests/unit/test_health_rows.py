"""Rows of checks: what takes a storage out, what brings it back, and when a segment is given up."""

from __future__ import annotations

import pytest

from kvcm_platform.core.health import HealthLimits, Row, is_gone_for_good, wait_after_lives


def played(checks: str, limits: HealthLimits) -> str:
    """What counts after each of the checks: + good, - bad."""
    row, said = Row(True), ""
    for check in checks:
        row = row.after(check == "+", limits)
        said += "a" if row.is_available else "u"
    return said


@pytest.mark.parametrize(
    ("checks", "failures", "successes", "expected"),
    [
        ("+++", 2, 2, "aaa"),
        ("-+-+-", 2, 2, "aaaaa"),
        ("--", 2, 2, "au"),
        ("--+-+-+", 2, 2, "auuuuuu"),
        ("--++", 2, 2, "auua"),
        ("--++-+", 2, 2, "auuaaa"),
        ("-+", 1, 1, "ua"),
        ("---+++", 3, 3, "aauuua"),
        ("--+", 2, 1, "aua"),
    ],
)
def test_rows(checks: str, failures: int, successes: int, expected: str) -> None:
    assert played(checks, HealthLimits(failures=failures, successes=successes)) == expected


@pytest.mark.parametrize(
    ("row", "is_in_doubt"),
    [
        (Row(True, 0, 4), False),
        (Row(True, 1, 0), True),
        (Row(False, 3, 0), False),
        (Row(False, 0, 1), True),
        (Row(True), False),
    ],
)
def test_what_gets_a_second_look(row: Row, is_in_doubt: bool) -> None:
    assert row.is_in_doubt is is_in_doubt


def test_a_segment_that_answers_is_never_given_up() -> None:
    limits = HealthLimits(pool_lost_seconds=300)
    assert not is_gone_for_good(1e9, Row(True, 1), limits)
    assert not is_gone_for_good(299.9, Row(False, 60), limits)
    assert is_gone_for_good(300, Row(False, 60), limits)


def test_new_memory_waits_longer_each_time_up_to_ten_minutes() -> None:
    waits = [wait_after_lives(lives) for lives in (0, 1, 2, 3, 4, 5, 6, 7, 8, 100_000)]
    assert waits == [0, 0, 0, 60, 120, 240, 480, 600, 600, 600]
