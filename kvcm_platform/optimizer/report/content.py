"""What a report is made of, whatever form it is printed in."""

from __future__ import annotations

from dataclasses import dataclass

from kvcm_platform.core.errors import invalid

from ..answers.hot_prefixes import HotPrefixes
from ..curve import Curve
from ..roi import BestCapacity, Roi, Scenario

MOST_LINES = 8
"""Colours that stay apart for every reader."""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve in the picture. `is_bound`: what no policy can exceed, drawn dashed."""

    label: str
    curve: Curve
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Quota:
    """The capacity of today, where known: in bytes, in blocks, or both."""

    size_bytes: float | None = None
    size_blocks: float | None = None
    label: str = "quota"


@dataclass(frozen=True, slots=True)
class Worth:
    """Money by capacity of one of the lines."""

    label: str
    roi: Roi
    best: BestCapacity


@dataclass(frozen=True, slots=True)
class Table:
    """Anything else in rows; cells are printed as they are. `numeric` columns are set to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """A histogram: `counts[k]` of values above `edges[k - 1]` up to `edges[k]`. `unit` is us, bytes, or
    another word."""

    title: str
    edges: tuple[int, ...]
    counts: tuple[int, ...]
    unit: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """`facts` are pairs of a name and a value; `made_at` is printed as it is."""

    title: str
    lines: tuple[Line, ...]
    made_at: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    block_bytes: float | None = None
    quota: Quota | None = None
    worth: Worth | None = None
    scenarios: tuple[Scenario, ...] = ()
    prefixes: HotPrefixes | None = None
    bars: tuple[Bars, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises DomainError for more lines than have colours."""
        if len(self.lines) > MOST_LINES:
            raise invalid("curves", f"at most {MOST_LINES} in one picture")
