"""The rule of an alert's life, as a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.alerts.choices import AlertState
from apps.alerts.lifecycle import Known, Turn, turn

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PENDING, FIRING = AlertState.PENDING, AlertState.FIRING


@pytest.mark.parametrize(
    ("state", "since", "seen", "is_found", "held", "kept", "expected"),
    [
        (None, 0, 0, False, 10, 20, Turn.NONE),
        (None, 0, 0, True, 10, 20, Turn.BEGIN),
        (None, 0, 0, True, 0, 20, Turn.FIRE),
        (PENDING, 9, 5, True, 10, 20, Turn.STAY),
        (PENDING, 10, 5, True, 10, 20, Turn.FIRE),
        (PENDING, 0, 0, True, 0, 20, Turn.FIRE),
        (PENDING, 30, 5, False, 10, 20, Turn.FORGET),
        # A clock that went back.
        (PENDING, -5, -5, True, 10, 20, Turn.STAY),
        (FIRING, 99, -5, False, 10, 20, Turn.NONE),
        (FIRING, 99, 5, True, 10, 20, Turn.STAY),
        (FIRING, 99, 19, False, 10, 20, Turn.NONE),
        (FIRING, 99, 20, False, 10, 20, Turn.RESOLVE),
        (FIRING, 99, 0, False, 10, 0, Turn.RESOLVE),
    ],
)
def test_every_turn(
    state: AlertState | None, since: int, seen: int, is_found: bool, held: int, kept: int, expected: Turn
) -> None:
    before = (NOW - timedelta(seconds=since), NOW - timedelta(seconds=seen))
    known = None if state is None else Known(state, *before)
    found = turn(known, is_found=is_found, now=NOW, for_seconds=held, keep_firing_seconds=kept)
    assert found is expected
