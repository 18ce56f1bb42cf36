"""A reclaim run under way, as it is kept between rounds: whoever has the group's lease goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .runs import RunReport, Trigger

MARKS, TTL, REQUEST = "marks", "ttl", "request"
"""Kinds of runs: a group has one of each of the first two at a time."""


@dataclass(slots=True)
class OpenRun:
    """The report, and what only those need who work on the run."""

    report: RunReport
    group_number: int
    begun: list[tuple[str, str, int]] = field(default_factory=list)
    """(scope, subject, what a refused Start wanted there) of the limits that it brings down to their low
    marks, or as far as such a Start needs.
    """
    storages: dict[str, int] = field(default_factory=dict)
    """Storage name -> bytes that the group has still to give there. Where several groups share one, each
    gives its part of what was too much when all were asked.
    """
    amount: int | None = None
    """Of a request: what has to go in all; None = no limit, or down to the low marks."""
    in_blocks: bool = False
    to_low_marks: bool = False
    idle_before_ms: int | None = None
    """Only runs of blocks that were not used since."""
    numbers: dict[int, list[int]] = field(default_factory=dict)
    """Instance number -> [blocks, bytes] chosen."""
    errors: int = 0
    """Rounds in which it failed."""
    has_ended: bool = False
    """Its end was told; what is left is to forget it."""

    @property
    def id(self) -> bytes:
        """As pending deletions name it."""
        return bytes.fromhex(self.report.id)

    @property
    def kind(self) -> str:
        if self.report.request is not None:
            return REQUEST
        return TTL if self.report.trigger is Trigger.TTL else MARKS

    @property
    def chosen(self) -> int:
        """In the unit of its amount."""
        return self.report.chosen_blocks if self.in_blocks else self.report.chosen_bytes

    def dumps(self) -> str:
        return json.dumps({**asdict(self), "report": self.report.to_dict()})

    @classmethod
    def loads(cls, raw: bytes | str) -> OpenRun:
        """Raises ValueError for what is no run."""
        try:
            data: Mapping[str, Any] = json.loads(raw)
            known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
            known["report"] = RunReport.from_dict(data["report"])
            known["begun"] = [(scope, name, wanted) for scope, name, wanted in data.get("begun", ())]
            known["numbers"] = {int(number): list(two) for number, two in data.get("numbers", {}).items()}
            return cls(**known)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no reclaim run: {error}") from error
