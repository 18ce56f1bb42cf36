"""What becomes of one alert: a pure rule, from its state and what was found to its next state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from apps.alerts.choices import AlertState


class Turn(Enum):
    """What one evaluation does to an alert."""

    NONE = "none"
    BEGIN = "begin"
    FIRE = "fire"
    STAY = "stay"
    FORGET = "forget"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Known:
    """What is kept of an alert that is pending or firing."""

    state: AlertState
    since: datetime
    last_seen_at: datetime


def turn(
    known: Known | None, *, is_found: bool, now: datetime, for_seconds: int, keep_firing_seconds: int
) -> Turn:
    """The condition must hold for `for_seconds` to fire, and be gone for `keep_firing_seconds` to resolve.

    A clock that went back delays both and never skips a step.
    """
    if known is None:
        if not is_found:
            return Turn.NONE
        return Turn.BEGIN if for_seconds else Turn.FIRE
    if known.state is AlertState.PENDING:
        if not is_found:
            return Turn.FORGET
        return Turn.FIRE if now - known.since >= timedelta(seconds=for_seconds) else Turn.STAY
    if is_found:
        return Turn.STAY
    is_over = now - known.last_seen_at >= timedelta(seconds=keep_firing_seconds)
    return Turn.RESOLVE if is_over else Turn.NONE
