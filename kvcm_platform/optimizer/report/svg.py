"""Pictures as SVG for standalone pages: colours are classes, so the page's scheme decides them.

Everything that is not a number goes through the template engine's escaping; nothing refers to the outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from kvcm_platform.core.errors import invalid

from ..answers.shape import knee
from ..answers.thinning import thinned
from ..curve import Float64, Int64
from .axis import WIDEST, CapacityAxis, capacity_axis, decades, money_ticks, rate_ticks, short
from .content import Line, Quota, Worth

_WIDTH, _HEIGHT = 960, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 44, 52
_POINTS = 400


@dataclass(frozen=True, slots=True)
class _Frame:
    """From the values of the axes to the picture: x in the logarithm, y evenly."""

    low: float
    high: float
    bottom: float
    top: float

    def x(self, position: float) -> float:
        share = math.log(max(position, self.low) / self.low) / math.log(self.high / self.low)
        return _LEFT + min(1.0, share) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def path(self, positions: Float64, values: Float64) -> str:
        """From the last point before the left edge, drawn on it: what is reached there."""
        first = max(0, int(np.searchsorted(positions, self.low, side="right")) - 1)
        pairs = zip(positions[first:], values[first:], strict=True)
        return "M" + "L".join(f"{self.x(float(x)):.1f} {self.y(float(y)):.1f}" for x, y in pairs)


def hit_rate_svg(lines: Sequence[Line], *, block_bytes: float | None, quota: Quota | None) -> Markup:
    """The picture of `curves_png` for a page. Raises as `capacity_axis`."""
    axis = capacity_axis(lines, block_bytes=block_bytes, quota=quota)
    unlimited = max(line.curve.unlimited_hit_blocks / max(1, line.curve.blocks) for line in lines)
    highest = max(unlimited, *(float(line.curve.hit_rate.max(initial=0)) for line in lines))
    ticks = rate_ticks(highest * 1.03)
    frame = _Frame(axis.low, axis.high, ticks[0], ticks[-1])
    parts = [_rows(frame, [(rate, f"{rate:.0%}") for rate in ticks]), *_columns(frame, axis)]
    y = frame.y(unlimited)
    parts.append(_tag("line", "limit", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
    parts.append(_text(_LEFT + 4, y - 5, f"without limit {unlimited:.1%}", "muted"))
    for number, line in enumerate(lines):
        curve = thinned(line.curve, _POINTS)
        drawn = frame.path(axis.positions(curve), curve.hit_rate)
        parts.append(_tag("path", f"line s{number}{' bound' if line.is_bound else ''}", d=drawn))
    place = axis.of_quota(quota) if quota else None
    if quota and place:
        x = frame.x(place)
        parts.append(_tag("line", "quota", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM))
        parts.append(_beside(x, _HEIGHT - _BOTTOM - 8, f"{quota.label} {axis.tick_text(place)}", "warn"))
    parts += _knee(frame, axis, lines)
    summary = (
        f"Hit rate by capacity of {', '.join(line.label for line in lines)}; without limit {unlimited:.1%}."
    )
    return _picture(parts, summary)


def worth_svg(worth: Worth) -> Markup:
    """Money a month by capacity: saved, paid for storage, and what is left, with the best capacity."""
    roi = worth.roi
    shown = _spread(roi.capacity_bytes)
    sizes = roi.capacity_bytes[shown]
    low, high = float(sizes[0]), float(sizes[-1])
    if high <= low:
        low, high = low / 2, high * 2
    axis = CapacityAxis(in_bytes=True, block_bytes=0.0, low=low, high=high)
    series = (roi.saved_money_month[shown], roi.storage_money_month[shown], roi.net_money_month[shown])
    # What storage costs at capacities that nobody would buy must not flatten the rest.
    most = max(float(roi.saved_money_month.max(initial=0)), 1e-9)
    ticks = money_ticks(max(float(series[2].min(initial=0)), -most), most * 1.02)
    frame = _Frame(low, high, ticks[0], ticks[-1])
    parts = [_rows(frame, [(value, short(value)) for value in ticks]), *_columns(frame, axis)]
    parts.append(Markup('<g clip-path="url(#inside)">'))
    for number, values in enumerate(series):
        parts.append(_tag("path", f"line w{number}", d=frame.path(sizes, values)))
    parts.append(Markup("</g>"))
    if worth.best.index >= 0:
        x, y = frame.x(worth.best.capacity_bytes), frame.y(worth.best.net_money_month)
        parts.append(_tag("circle", "mark w2", cx=x, cy=y, r=5))
        words = f"best {short(worth.best.net_money_month)} at {axis.tick_text(worth.best.capacity_bytes)}"
        parts.append(_beside(x, y - 10, words, ""))
    return _picture(parts, f"Money a month by capacity for {worth.label}: saved, paid for storage, left.")


def _spread(sizes: Float64) -> Int64:
    """Positions of at most _POINTS sizes that are worth drawing, evenly in the logarithm."""
    above = np.flatnonzero(sizes > float(sizes.max(initial=0)) / WIDEST)
    if not len(above):
        raise invalid("curves", "no capacity is above 0")
    logs = np.log2(sizes[above])
    nearest = np.searchsorted(logs, np.linspace(logs[0], logs[-1], min(_POINTS, len(above))))
    return np.asarray(above[np.unique(nearest.clip(0, len(above) - 1))], dtype=np.int64)


def _rows(frame: _Frame, ticks: Sequence[tuple[float, str]]) -> Markup:
    drawn = []
    for value, label in ticks:
        y = frame.y(value)
        drawn.append(_tag("line", "grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        drawn.append(_text(_LEFT - 8, y + 4, label, "muted end"))
    return Markup("").join(drawn)


def _columns(frame: _Frame, axis: CapacityAxis) -> list[Markup]:
    drawn = []
    bottom = _HEIGHT - _BOTTOM
    for position in axis.ticks():
        x = frame.x(position)
        drawn.append(_tag("line", "grid", x1=x, x2=x, y1=_TOP, y2=bottom))
        drawn.append(_text(x, bottom + 18, axis.tick_text(position), "muted middle"))
    name = "capacity" if axis.in_bytes else "capacity in blocks"
    drawn.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, name, "muted middle"))
    if axis.in_bytes and axis.block_bytes:
        size = axis.block_bytes
        for blocks in decades(axis.low / size, axis.high / size):
            drawn.append(_text(frame.x(blocks * size), _TOP - 14, short(blocks), "muted middle"))
        drawn.append(_text(_LEFT - 8, _TOP - 14, "blocks", "muted end"))
    return drawn


def _knee(frame: _Frame, axis: CapacityAxis, lines: Sequence[Line]) -> list[Markup]:
    number, line = next(((i, line) for i, line in enumerate(lines) if not line.is_bound), (0, lines[0]))
    found = knee(line.curve)
    if found is None:
        return []
    place = float(axis.positions(line.curve)[found.index])
    x, y = frame.x(place), frame.y(found.hit_rate)
    words = f"knee {found.hit_rate:.1%} at {axis.text(place)}"
    return [_tag("circle", f"mark s{number}", cx=x, cy=y, r=6), _beside(x, y + 22, words, "")]


def _beside(x: float, y: float, words: str, kind: str) -> Markup:
    """Words to the side of x where there is more room."""
    if x > (_LEFT + _WIDTH - _RIGHT) / 2:
        return _text(x - 8, y, words, f"{kind} end halo")
    return _text(x + 8, y, words, f"{kind} halo")


def _text(x: float, y: float, words: str, kind: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, kind, escape(words))


def _tag(name: str, kind: str, **members: float | str) -> Markup:
    written = Markup(" ").join(
        Markup('{}="{}"').format(key, value if isinstance(value, str) else f"{value:.1f}")
        for key, value in members.items()
    )
    return Markup('<{} class="{}" {}/>').format(Markup(name), kind, written)  # noqa: S704


def _picture(parts: Sequence[Markup], summary: str) -> Markup:
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><defs><clipPath id="inside">'
        '<rect x="{}" y="{}" width="{}" height="{}"/></clipPath></defs>{}</svg>'
    ).format(
        _WIDTH,
        _HEIGHT,
        summary,
        _LEFT,
        _TOP,
        _WIDTH - _LEFT - _RIGHT,
        _HEIGHT - _TOP - _BOTTOM,
        Markup("").join(parts),
    )
