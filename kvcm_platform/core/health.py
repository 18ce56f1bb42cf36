"""When a storage counts as gone, and when it counts again: rows of checks, never a single hiccup."""

from __future__ import annotations

from dataclasses import dataclass

LATELY_SECONDS = 3600.0
"""How far back the lives of a node's memory are counted."""
LIVES_AT_ONCE = 3
"""So many may begin lately before the next one has to wait."""
FIRST_WAIT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """How much it takes. Counts are of checks in a row."""

    failures: int = 2
    """Failed checks that take an available storage (or a segment of one) out of reads and writes."""
    successes: int = 2
    """Good checks that bring it back."""
    pool_lost_seconds: float = 300
    """A node that stays away from its pool for longer is lost with what its memory held."""
    content_check_seconds: float = 600
    """How often the blocks of a storage are checked whose objects may vanish by themselves; 0 = never."""
    abandon_seconds: float = 0
    """After how long a storage under removal that does not answer is given up; 0 = only when told so."""


@dataclass(frozen=True, slots=True)
class Row:
    """The latest checks that said the same, and what they amount to."""

    is_available: bool
    failures: int = 0
    successes: int = 0

    def after(self, is_ok: bool, limits: HealthLimits) -> Row:
        """The row with one more check."""
        if is_ok:
            successes = self.successes + 1
            return Row(self.is_available or successes >= limits.successes, 0, successes)
        failures = self.failures + 1
        return Row(self.is_available and failures < limits.failures, failures, 0)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the latest checks speak against what counts: worth a second look at once."""
        return self.failures > 0 if self.is_available else self.successes > 0


def is_gone_for_good(missed_seconds: float, row: Row, limits: HealthLimits) -> bool:
    """Whether a segment that was missed for so long will not come back: its blocks may be cleared."""
    return not row.is_available and missed_seconds >= limits.pool_lost_seconds


def wait_after_lives(lives: int) -> float:
    """How many seconds a node's new memory waits, from when the last of `lives` lately was taken up.

    Each life takes a number for good, and there are 65,535: a node that crashes all day takes at most
    one in ten minutes or so. One that came back several times and then stayed calm does not wait.
    """
    if lives < LIVES_AT_ONCE:
        return 0.0
    doublings = min(lives - LIVES_AT_ONCE, 10)
    return min(FIRST_WAIT_SECONDS * (1 << doublings), LONGEST_WAIT_SECONDS)
