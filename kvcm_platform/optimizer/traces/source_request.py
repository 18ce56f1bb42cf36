"""What a reader makes of a trace: requests, one at a time, and what it could not use."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kvcm_platform.optimizer.trace import BadLine, Event, TraceInstance

from .errors import TraceReadError

ONE_INSTANCE = "instance"
"""The instance of traces that name none, as the reference simulator calls it."""


@dataclass(slots=True)
class SourceRequest:
    """One request, in the order of the file; see Trace for the meaning of the members.

    `keys` are signed 64-bit, one a block, first block first, each naming its block alone or with its prefix:
    ingest tells blocks apart by the whole chain.
    """

    at_us: int
    keys: array[int]
    instance: str = ONE_INSTANCE
    event: Event = Event.TURN
    type: str = ""
    session: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    skip_n: int = 0
    read_n: int | None = None
    """None: all of them."""
    number: int = 0
    """The line or record that it came from, counted from 1; for complaints."""


class BadLines:
    """Counts what is skipped, keeps the first ones, and refuses the one after `limit`."""

    def __init__(self, limit: int, *, kept: int = 20) -> None:
        self.count = 0
        self.first: list[BadLine] = []
        self._limit = limit
        self._kept = kept

    def add(self, number: int, reason: str) -> None:
        self.count += 1
        if len(self.first) < self._kept:
            self.first.append(BadLine(number, reason))
        if self.count > self._limit:
            seen = self.first[0]
            raise TraceReadError(
                "too_many_bad_lines",
                f"line {number}: {reason} (more than {self._limit} unusable lines; "
                f"the first is line {seen.number}: {seen.reason})",
            )


@dataclass(slots=True)
class ReadOptions:
    """What a reader is told and what it tells.

    `block_tokens` and `block_bytes` stand for what the trace does not say (and override what it says).
    `instances`: what the trace says of its instances, for those that come up.
    """

    bad_lines: BadLines
    block_tokens: int | None = None
    block_bytes: int | None = None
    instances: dict[str, TraceInstance] = field(default_factory=dict)


Lines = Iterable[tuple[int, bytes | None]]
Reader = Callable[[Lines, ReadOptions], Iterator[SourceRequest]]
