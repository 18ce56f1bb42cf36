"""Pieces of SVG pictures: a frame with axes, lines, words.

Colours are classes, so the scheme of the page decides them; all words are escaped, and nothing refers to the
outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from ..curve import Float64

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 52


@dataclass(frozen=True, slots=True)
class Frame:
    """From the values of the axes to the picture: x in the logarithm, y evenly."""

    low: float
    high: float
    bottom: float
    top: float
    height: int = HEIGHT
    """Of the picture, in its own units."""

    @property
    def floor(self) -> float:
        """The y of the lower edge."""
        return self.height - BOTTOM

    def x(self, position: float) -> float:
        share = math.log(max(position, self.low) / self.low) / math.log(self.high / self.low)
        return LEFT + min(1.0, share) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.bottom) / (self.top - self.bottom)
        return self.floor - share * (self.floor - TOP)

    def path(self, positions: Float64, values: Float64) -> str:
        """From the last point before the left edge, drawn on it: what is reached there."""
        first = max(0, int(np.searchsorted(positions, self.low, side="right")) - 1)
        pairs = zip(positions[first:], values[first:], strict=True)
        return "M" + "L".join(f"{self.x(float(x)):.1f} {self.y(float(y)):.1f}" for x, y in pairs)


def rows(frame: Frame, ticks: Sequence[tuple[float, str]]) -> Markup:
    drawn = []
    for value, label in ticks:
        y = frame.y(value)
        drawn.append(tag("line", "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        drawn.append(text(LEFT - 8, y + 4, label, "muted end"))
    return Markup("").join(drawn)


def text(x: float, y: float, words: str, kind: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, kind, escape(words))


def tag(name: str, kind: str, **members: float | str) -> Markup:
    written = Markup(" ").join(
        Markup('{}="{}"').format(key, value if isinstance(value, str) else f"{value:.1f}")
        for key, value in members.items()
    )
    return Markup('<{} class="{}" {}/>').format(Markup(name), kind, written)  # noqa: S704


def picture(parts: Sequence[Markup], summary: str, *, height: int = HEIGHT) -> Markup:
    """`summary` is what readers hear who do not see it."""
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, summary, Markup("").join(parts)
    )


def clipped(parts: Sequence[Markup], name: str) -> Markup:
    """What is drawn outside of the frame is not shown. `name` is the picture's own on its page."""
    return Markup(
        '<defs><clipPath id="{}"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath></defs>'
        '<g clip-path="url(#{})">{}</g>'
    ).format(
        name,
        LEFT,
        TOP,
        WIDTH - LEFT - RIGHT,
        HEIGHT - TOP - BOTTOM,
        name,
        Markup("").join(parts),
    )
