"""What a reader makes of a trace: requests, one at a time, and what it could not use."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kvcm_platform.optimizer.trace import BadLine, Event, TraceInstance, instance_checked

from .errors import TraceReadError
from .source_lines import Lines

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


DEFAULT_BLOCK_TOKENS = 16
"""Where neither the trace nor the caller says it; the default of the engines."""

NOT_BROUGHT = "turn that looked up blocks which it did not bring: they are not counted as asked for"
"""The note on lookups whose end nobody wrote; the last block of a prompt changes when the answer fills it."""


MOST_NOTES = 100
OTHER_NOTES = "something else left out or assumed"


class Notes(Counter[str]):
    """How often what was noted. Texts come from the trace: those after MOST_NOTES different ones are one."""

    def __setitem__(self, note: str, count: int) -> None:
        if note in self or len(self) < MOST_NOTES:
            super().__setitem__(note, count)
        else:
            super().__setitem__(OTHER_NOTES, self[OTHER_NOTES] + count)


@dataclass(slots=True)
class ReadOptions:
    """What a reader is told and what it tells.

    `block_tokens` and `block_bytes` override what the trace says. `as_turns`: reads and writes of an event
    log become turns; None: as the format does by default. `instances`: what is known of those that came up.
    `notes`: what was assumed or left out, with how often.
    """

    bad_lines: BadLines
    block_tokens: int | None = None
    block_bytes: int | None = None
    as_turns: bool | None = None
    instances: dict[str, TraceInstance] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Notes)

    def instance(
        self, name: str, *, block_tokens: int | None = None, block_bytes: int = 0, group: str = ""
    ) -> TraceInstance:
        """What is known of an instance; at its first request this is what its trace says of it there.

        Raises ValueError for sizes that cannot be.
        """
        known = self.instances.get(name)
        if known is None:
            said = self.block_tokens or block_tokens
            if said is None:
                said = DEFAULT_BLOCK_TOKENS
                self.notes[f"blocks of {said} tokens assumed: the trace does not say it"] += 1
            known = instance_checked(TraceInstance(name, said, self.block_bytes or block_bytes, group))
            self.instances[name] = known
        return known


Reader = Callable[[Lines, ReadOptions], Iterator[SourceRequest]]
