"""The pictures of curves and money for standalone pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from kvcm_platform.core.errors import invalid

from ..answers.shape import knee
from ..answers.thinning import thinned
from ..curve import Float64, Int64
from .axis import WIDEST, CapacityAxis, capacity_axis, decades, money_ticks, rate_ticks, short
from .content import Line, Quota, Worth
from .svg_parts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, clipped, picture, rows, tag, text

_POINTS = 400


def hit_rate_svg(lines: Sequence[Line], *, block_bytes: float | None, quota: Quota | None) -> Markup:
    """The picture of `curves_png` for a page. Raises as `capacity_axis`."""
    axis = capacity_axis(lines, block_bytes=block_bytes, quota=quota)
    unlimited = max(line.curve.unlimited_hit_blocks / max(1, line.curve.blocks) for line in lines)
    highest = max(unlimited, *(float(line.curve.hit_rate.max(initial=0)) for line in lines))
    ticks = rate_ticks(highest * 1.03)
    frame = Frame(axis.low, axis.high, ticks[0], ticks[-1])
    parts = [rows(frame, [(rate, f"{rate:.0%}") for rate in ticks]), *_columns(frame, axis)]
    y = frame.y(unlimited)
    parts.append(tag("line", "limit", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
    parts.append(text(LEFT + 4, y - 5, f"without limit {unlimited:.1%}", "muted"))
    for number, line in enumerate(lines):
        curve = thinned(line.curve, _POINTS)
        drawn = frame.path(axis.positions(curve), curve.hit_rate)
        parts.append(tag("path", f"line s{number}{' bound' if line.is_bound else ''}", d=drawn))
    place = axis.of_quota(quota) if quota else None
    if quota and place:
        x = frame.x(place)
        parts.append(tag("line", "quota", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM))
        parts.append(_beside(x, HEIGHT - BOTTOM - 8, f"{quota.label} {axis.tick_text(place)}", "warn"))
    parts += _knee(frame, axis, lines)
    summary = (
        f"Hit rate by capacity of {', '.join(line.label for line in lines)}; without limit {unlimited:.1%}."
    )
    return picture(parts, summary)


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
    frame = Frame(low, high, ticks[0], ticks[-1])
    parts = [rows(frame, [(value, short(value)) for value in ticks]), *_columns(frame, axis)]
    drawn = [tag("path", f"line w{i}", d=frame.path(sizes, values)) for i, values in enumerate(series)]
    parts.append(clipped(drawn, "worth"))
    if worth.best.index >= 0:
        x, y = frame.x(worth.best.capacity_bytes), frame.y(worth.best.net_money_month)
        parts.append(tag("circle", "mark w2", cx=x, cy=y, r=5))
        words = f"best {short(worth.best.net_money_month)} at {axis.tick_text(worth.best.capacity_bytes)}"
        parts.append(_beside(x, y - 10, words, ""))
    return picture(parts, f"Money a month by capacity for {worth.label}: saved, paid for storage, left.")


def _spread(sizes: Float64) -> Int64:
    """Positions of at most _POINTS sizes that are worth drawing, evenly in the logarithm."""
    above = np.flatnonzero(sizes > float(sizes.max(initial=0)) / WIDEST)
    if not len(above):
        raise invalid("curves", "no capacity is above 0")
    logs = np.log2(sizes[above])
    nearest = np.searchsorted(logs, np.linspace(logs[0], logs[-1], min(_POINTS, len(above))))
    return np.asarray(above[np.unique(nearest.clip(0, len(above) - 1))], dtype=np.int64)


def _columns(frame: Frame, axis: CapacityAxis) -> list[Markup]:
    drawn = []
    bottom = HEIGHT - BOTTOM
    for position in axis.ticks():
        x = frame.x(position)
        drawn.append(tag("line", "grid", x1=x, x2=x, y1=TOP, y2=bottom))
        drawn.append(text(x, bottom + 18, axis.tick_text(position), "muted middle"))
    name = "capacity" if axis.in_bytes else "capacity in blocks"
    drawn.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, name, "muted middle"))
    if axis.in_bytes and axis.block_bytes:
        size = axis.block_bytes
        for blocks in decades(axis.low / size, axis.high / size):
            drawn.append(text(frame.x(blocks * size), TOP - 14, short(blocks), "muted middle"))
        drawn.append(text(LEFT - 8, TOP - 14, "blocks", "muted end"))
    return drawn


def _knee(frame: Frame, axis: CapacityAxis, lines: Sequence[Line]) -> list[Markup]:
    number, line = next(((i, line) for i, line in enumerate(lines) if not line.is_bound), (0, lines[0]))
    found = knee(line.curve)
    if found is None:
        return []
    place = float(axis.positions(line.curve)[found.index])
    x, y = frame.x(place), frame.y(found.hit_rate)
    words = f"knee {found.hit_rate:.1%} at {axis.text(place)}"
    return [tag("circle", f"mark s{number}", cx=x, cy=y, r=6), _beside(x, y + 22, words, "")]


def _beside(x: float, y: float, words: str, kind: str) -> Markup:
    """Words to the side of x where there is more room."""
    if x > (LEFT + WIDTH - RIGHT) / 2:
        return text(x - 8, y, words, f"{kind} end halo")
    return text(x + 8, y, words, f"{kind} halo")
