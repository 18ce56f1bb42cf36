"""Histograms as pictures and rows: one bar a doubling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from kvcm_platform.core.sizes import sized

from ..curve import Unit
from .axis import rate_ticks, short, span_text
from .content import Bars, Table
from .svg_parts import LEFT, RIGHT, WIDTH, Frame, picture, rows, tag, text

_HEIGHT = 260
_LABELS = 14
_LEAST_TIME = 17
"""As a power of 2 of microseconds: what is sooner is as soon as can be, and clocks of traces are coarse."""


def reuse_bars(details: Mapping[str, Any], unit: str = Unit.BLOCKS) -> tuple[Bars, ...]:
    """What `LruAnalysis.to_json` says of reuse: those of its three histograms that hold anything.

    `unit` is that of the analysis' capacities.
    """
    distance, time, uses = (details.get(name) for name in ("reuse_distance", "reuse_time", "access_counts"))
    found = []
    if distance:
        found.append(
            Bars(
                "Capacity that a reused block needs",
                tuple(distance["edges"]),
                tuple(distance["counts"]),
                str(unit),
                "Blocks asked for again, by the capacity that would have kept them.",
            )
        )
    if time:
        note = "Blocks asked for again, by the time since their last use."
        found.append(Bars("Time between two uses", tuple(time["edges"]), tuple(time["counts"]), "us", note))
    if uses:
        note = "Distinct blocks by how often they were used; those used once are no use to any cache."
        found.append(Bars("Uses of a block", tuple(uses["edges"]), tuple(uses["blocks"]), "uses", note))
    return tuple(one for one in found if sum(one.counts))


def doublings(bars: Bars) -> list[tuple[str, int]]:
    """Up to which value, and how many: bins of one doubling together, empty ones at both ends left out."""
    summed: dict[int, int] = {}
    for edge, count in zip(bars.edges, bars.counts, strict=True):
        power = max(_LEAST_TIME if bars.unit == "us" else 0, max(0, edge - 1).bit_length())
        summed[power] = summed.get(power, 0) + count
    used = [power for power, count in summed.items() if count]
    if not used:
        return []
    return [
        (value_text(1 << power, bars.unit), summed.get(power, 0)) for power in range(min(used), max(used) + 1)
    ]


def value_text(value: int, unit: str) -> str:
    if unit == Unit.BYTES:
        return sized(value)
    return span_text(value) if unit == "us" else short(value)


def bars_svg(bars: Bars) -> Markup:
    """Shares of all, one bar a doubling."""
    values = doublings(bars)
    total = sum(count for _, count in values) or 1
    ticks = rate_ticks(max((count for _, count in values), default=0) / total)
    frame = Frame(1.0, 2.0, ticks[0], ticks[-1], height=_HEIGHT)
    parts = [rows(frame, [(rate, f"{rate:.0%}") for rate in ticks])]
    width = (WIDTH - LEFT - RIGHT) / max(1, len(values))
    every = max(1, -(-len(values) // _LABELS))
    for number, (label, count) in enumerate(values):
        x, y = LEFT + number * width, frame.y(count / total)
        parts.append(tag("rect", "bar", x=x + 1, y=y, width=max(1.0, width - 2), height=frame.floor - y))
        if number % every == 0:
            parts.append(text(x + width / 2, frame.floor + 18, label, "muted middle"))
    return picture(parts, f"{bars.title}: shares by doubling", height=_HEIGHT)


def bars_table(bars: Bars) -> Table:
    values = doublings(bars)
    total = sum(count for _, count in values) or 1
    rows = tuple((label, f"{count:,}", f"{count / total:.1%}") for label, count in values)
    return Table(bars.title, ("up to", "blocks", "share"), rows, (True, True, True), bars.note)
