"""How far a storage is on its way out."""

from __future__ import annotations

import pytest

from kvcm_platform.core.departure import Mark, eta_seconds, progress_ratio


def test_the_rate_is_of_the_last_minutes() -> None:
    mark = Mark(0, 1000)
    assert mark.rate(1, 900) is None, "too early to tell"
    assert mark.rate(10, 900) == 10
    assert mark.moved(299, 500) is mark
    moved = mark.moved(500, 500)
    assert moved == Mark(500, 500, 1.0)
    assert moved.rate(501, 490) == 1.0, "the one before, until there is a new one"
    assert moved.rate(510, 400) == 10


def test_what_is_written_meanwhile_is_no_progress() -> None:
    assert Mark(0, 1000).rate(10, 2000) == 0
    assert progress_ratio(1000, 2000) == 0


@pytest.mark.parametrize(("start", "left", "expected"), [(0, 0, 1), (1000, 250, 0.75), (1000, 0, 1)])
def test_progress(start: int, left: int, expected: float) -> None:
    assert progress_ratio(start, left) == expected


@pytest.mark.parametrize(
    ("left", "rate", "expected"), [(0, None, 0), (100, 10.0, 10), (100, 0.0, None), (100, None, None)]
)
def test_eta(left: int, rate: float | None, expected: float | None) -> None:
    assert eta_seconds(left, rate) == expected
