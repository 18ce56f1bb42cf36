"""How long a storage that refused is left alone before it is tried again."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
LEAST_SHARE = 0.5
"""Each wait is drawn between this share of its interval and the whole, so that no two storages keep step."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """`failures` in a row; nothing is tried before `until_ms` (the index's clock)."""

    failures: int = 0
    until_ms: int = 0

    @property
    def interval_seconds(self) -> float:
        """The longest wait after so many failures: 1 s, doubled with each, 60 s at most."""
        if not self.failures:
            return 0.0
        return min(FIRST_SECONDS * 2.0 ** min(self.failures - 1, 30), LONGEST_SECONDS)

    def is_waiting(self, now_ms: int) -> bool:
        """An end further away than any wait lasts is that of a clock that jumped: it does not count."""
        return now_ms < self.until_ms <= now_ms + LONGEST_SECONDS * 1000

    def failed(self, now_ms: int, draw: float) -> BackOff:
        """After one more failure; `draw` is a random number in 0..1."""
        more = BackOff(self.failures + 1)
        share = LEAST_SHARE + (1 - LEAST_SHARE) * draw
        return BackOff(more.failures, now_ms + round(more.interval_seconds * share * 1000))


NO_BACK_OFF = BackOff()
