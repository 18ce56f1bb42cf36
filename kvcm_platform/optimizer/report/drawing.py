"""Draws curves by matplotlib, without a window or global state: safe in threads."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ..answers.shape import knee
from ..answers.thinning import thinned
from .axis import CapacityAxis, decades, is_dense, rate_ticks, short
from .content import Line, Quota
from .palette import Palette

_POINTS = 800
_DOTS_PER_INCH = 100


def drawn_png(
    lines: Sequence[Line],
    axis: CapacityAxis,
    quota: Quota | None,
    palette: Palette,
    title: str,
    size: tuple[int, int],
) -> bytes:
    """`size` in pixels."""
    inches = (size[0] / _DOTS_PER_INCH, size[1] / _DOTS_PER_INCH)
    figure = Figure(figsize=inches, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    figure.set_facecolor(palette.panel)
    _draw(figure, lines, axis, quota, palette, title)
    png = io.BytesIO()
    figure.savefig(png, format="png", facecolor=figure.get_facecolor())
    return png.getvalue()


def _draw(
    figure: Figure,
    lines: Sequence[Line],
    axis: CapacityAxis,
    quota: Quota | None,
    palette: Palette,
    title: str,
) -> None:
    plot = figure.add_subplot()
    _frame(plot, axis, palette)
    highest = max(float(line.curve.hit_rate.max(initial=0)) for line in lines)
    unlimited = max(line.curve.unlimited_hit_blocks / max(1, line.curve.blocks) for line in lines)
    ticks = rate_ticks(max(highest, unlimited) * 1.03)
    plot.set_ylim(0, ticks[-1])
    plot.yaxis.set_major_locator(FixedLocator(ticks))
    plot.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:.0%}"))
    for number, line in enumerate(lines):
        _line(plot, line, axis, palette.series[number])
    plot.axhline(unlimited, color=palette.muted, linewidth=1, linestyle=(0, (1, 3)))
    plot.annotate(
        f"without limit {unlimited:.1%}",
        (axis.low, unlimited),
        xytext=(4, 4),
        textcoords="offset points",
        color=palette.muted,
        fontsize=9,
    )
    _knee(plot, lines, axis, palette)
    place = axis.of_quota(quota) if quota else None
    if quota and place:
        plot.axvline(place, color=palette.warn, linewidth=1.5, linestyle=(0, (6, 3)))
        plot.annotate(
            f"{quota.label} {axis.text(place)}",
            (place, 0.03),
            xycoords=("data", "axes fraction"),
            xytext=(-6, 0),
            textcoords="offset points",
            ha="right",
            rotation=90,
            color=palette.warn,
            fontsize=9,
            bbox=_backdrop(palette),
        )
    plot.set_title(title, color=palette.text, fontsize=13, loc="left", pad=14)
    legend = plot.legend(loc="lower right", fontsize=10, labelcolor=palette.text)
    legend.get_frame().set(facecolor=palette.panel, edgecolor=palette.border, alpha=0.9)


def _frame(plot: Axes, axis: CapacityAxis, palette: Palette) -> None:
    plot.set_facecolor(palette.panel)
    plot.set_xscale("log")
    plot.set_xlim(axis.low, axis.high)
    plot.xaxis.set_major_locator(FixedLocator(axis.ticks()))
    plot.xaxis.set_minor_locator(NullLocator())
    plot.xaxis.set_major_formatter(FuncFormatter(lambda position, _: axis.tick_text(position)))
    plot.set_xlabel("capacity" if axis.in_bytes else "capacity in blocks", color=palette.muted)
    plot.set_ylabel("hit rate (blocks)", color=palette.muted)
    plot.grid(True, color=palette.border, linewidth=0.8)
    plot.set_axisbelow(True)
    plot.tick_params(colors=palette.muted, length=0)
    for spine in plot.spines.values():
        spine.set_visible(False)
    if axis.in_bytes and axis.block_bytes:
        _blocks_above(plot, axis, palette)


def _blocks_above(plot: Axes, axis: CapacityAxis, palette: Palette) -> None:
    size = axis.block_bytes

    def to_blocks(position: Any) -> Any:
        return position / size

    def to_bytes(blocks: Any) -> Any:
        return blocks * size

    above = plot.secondary_xaxis("top", functions=(to_blocks, to_bytes))
    above.xaxis.set_major_locator(FixedLocator(decades(axis.low / size, axis.high / size)))
    above.xaxis.set_minor_locator(NullLocator())
    above.xaxis.set_major_formatter(FuncFormatter(lambda blocks, _: short(blocks)))
    above.tick_params(colors=palette.muted, length=0)
    above.set_xlabel("blocks", color=palette.muted)
    for spine in above.spines.values():
        spine.set_visible(False)


def _line(plot: Axes, line: Line, axis: CapacityAxis, colour: str) -> None:
    curve = thinned(line.curve, _POINTS)
    plot.plot(
        axis.positions(curve),
        curve.hit_rate,
        label=line.label,
        color=colour,
        linewidth=1.5 if line.is_bound else 2,
        linestyle=(0, (5, 2)) if line.is_bound else "-",
        marker="" if is_dense(curve) else "o",
        markersize=4,
    )


def _knee(plot: Axes, lines: Sequence[Line], axis: CapacityAxis, palette: Palette) -> None:
    """Of the first line that is no bound."""
    number, line = next(((i, line) for i, line in enumerate(lines) if not line.is_bound), (0, lines[0]))
    found = knee(line.curve)
    if found is None:
        return
    place = float(axis.positions(line.curve)[found.index])
    plot.plot([place], [found.hit_rate], "o", color=palette.series[number], markersize=9, fillstyle="none")
    is_right = place > (axis.low * axis.high) ** 0.5
    plot.annotate(
        f"knee {found.hit_rate:.1%} at {axis.text(place)}",
        (place, found.hit_rate),
        xytext=(-10 if is_right else 10, 12 if is_right else -16),
        textcoords="offset points",
        ha="right" if is_right else "left",
        color=palette.text,
        fontsize=9,
        bbox=_backdrop(palette),
    )


def _backdrop(palette: Palette) -> dict[str, Any]:
    """Behind words that lines run through."""
    return {"facecolor": palette.panel, "edgecolor": "none", "alpha": 0.85, "pad": 2}
