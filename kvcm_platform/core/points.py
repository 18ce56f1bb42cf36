"""Points of a history: how much was held at a moment, and what was done in the time up to the next one.

Pure: no database, no clock. A point is kept only where what is held changed or something was done, so
the levels of a moment are those of the newest point before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True)
class Levels:
    """What was held at a moment, in bytes. `used` counts writing, serving and what waits for its deletion.

    None of limit and marks = there is none. `blocks` are those written or served.
    """

    used_bytes: int = 0
    writing_bytes: int = 0
    serving_bytes: int = 0
    pending_bytes: int = 0
    reserved_bytes: int = 0
    blocks: int = 0
    limit_bytes: int | None = None
    high_bytes: int | None = None
    low_bytes: int | None = None

    @property
    def live_bytes(self) -> int:
        """What marks are compared with: a pending deletion is on its way out."""
        return self.writing_bytes + self.serving_bytes + self.reserved_bytes

    @property
    def counted_bytes(self) -> int:
        """What the hard limit is compared with."""
        return self.used_bytes + self.reserved_bytes


_INT64 = (1 << 63) - 1
LEVEL_NAMES = tuple(member.name for member in fields(Levels))
COUNT_NAMES = (
    *("requests", "requested_blocks", "hit_blocks", "requested_tokens", "hit_tokens"),
    *("written_blocks", "written_bytes", "removed_blocks", "write_refused", "quota_refused", "failed_blocks"),
)


@dataclass(slots=True)
class Amounts:
    """What was done in a time. `written_bytes` are blocks by the mean size of the instance's blocks.

    `read_us` and `write_us` count calls by latency bucket (`index.facts`), without the zeros at the end.
    """

    requests: int = 0
    requested_blocks: int = 0
    hit_blocks: int = 0
    requested_tokens: int = 0
    hit_tokens: int = 0
    written_blocks: int = 0
    written_bytes: int = 0
    removed_blocks: int = 0
    write_refused: int = 0
    quota_refused: int = 0
    failed_blocks: int = 0
    read_us: list[int] = field(default_factory=list)
    write_us: list[int] = field(default_factory=list)

    def add(self, other: Amounts) -> None:
        # Spelled out: it is done for every instance in every flush of every process.
        self.requests += other.requests
        self.requested_blocks += other.requested_blocks
        self.hit_blocks += other.hit_blocks
        self.requested_tokens += other.requested_tokens
        self.hit_tokens += other.hit_tokens
        self.written_blocks += other.written_blocks
        self.written_bytes += other.written_bytes
        self.removed_blocks += other.removed_blocks
        self.write_refused += other.write_refused
        self.quota_refused += other.quota_refused
        self.failed_blocks += other.failed_blocks
        add_buckets(self.read_us, other.read_us)
        add_buckets(self.write_us, other.write_us)

    def __bool__(self) -> bool:
        return any(self.counts()) or any(self.read_us) or any(self.write_us)

    def counts(self) -> list[int]:
        """In the order of COUNT_NAMES."""
        return [getattr(self, name) for name in COUNT_NAMES]


def add_buckets(mine: list[int], more: Sequence[int]) -> None:
    """Add calls by bucket; lists may be of different lengths."""
    mine += [0] * (len(more) - len(mine))
    for bucket, count in enumerate(more):
        mine[bucket] += count


@dataclass(slots=True)
class Point:
    """A time from `at` (unix seconds) on: levels at its end, the most that was used, what was done in it."""

    at: int
    levels: Levels
    peak_bytes: int
    amounts: Amounts = field(default_factory=Amounts)


def merged(points: Iterable[Point], step: int) -> list[Point]:
    """Points in order of time, as points of `step` seconds each."""
    found: list[Point] = []
    for point in points:
        at = point.at - point.at % step
        if not found or found[-1].at != at:
            found.append(Point(at, point.levels, point.peak_bytes))
        last = found[-1]
        last.levels = point.levels
        last.peak_bytes = max(last.peak_bytes, point.peak_bytes)
        last.amounts.add(point.amounts)
    return found


def total(levels: Iterable[Levels]) -> Levels:
    """The sum, with the limits of those that have them; no more than databases have numbers for."""
    sums = dict.fromkeys(LEVEL_NAMES, 0)
    limits = 0
    for one in levels:
        for name in LEVEL_NAMES:
            sums[name] += getattr(one, name) or 0
        limits += one.limit_bytes is not None
    summed = Levels(**{name: min(amount, _INT64) for name, amount in sums.items()})
    return replace(
        summed, limit_bytes=summed.limit_bytes if limits else None, high_bytes=None, low_bytes=None
    )
