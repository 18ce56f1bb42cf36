"""A history as charts want it: the same times for every series, unknown where nobody looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.usage.choices import KEPT_SECONDS, Resolution, SeriesKey
from apps.usage.models import Series
from apps.usage.selectors.amounts import LATENCY_NAMES, RATE_NAMES, amounts_form
from apps.usage.selectors.points import gaps_between, levels_before, points_between, position
from kvcm_platform.core.points import COUNT_NAMES, LEVEL_NAMES, Amounts, Levels, Point

POINTS_AT_MOST = 1000
_POINTS_WANTED = 300
_STEPS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800),
)
LEVEL_COLUMNS = ("peak_bytes", *LEVEL_NAMES)
AMOUNT_COLUMNS = (*COUNT_NAMES, *RATE_NAMES, *LATENCY_NAMES)


@dataclass(frozen=True, slots=True)
class Span:
    """`begin` and `end` are whole steps; of `end` on is not shown. Unix seconds."""

    begin: int
    end: int
    step: int
    resolution: Resolution
    """Of the coarsest points that it is made of."""

    @property
    def times(self) -> range:
        return range(self.begin, self.end, self.step)


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """Columns of one value a time: levels and peaks are None where unknown, sums 0 where nothing was done."""

    key: SeriesKey
    columns: dict[str, list[Any]]


def span_of(begin: int, end: int, *, now: int, step: int | None = None) -> Span:
    """The times of a chart. Raises ValueError where `begin` is not before `end`, or a step makes too many.

    A step that is finer than what is still known of the beginning is made as coarse as that.
    """
    if begin >= end:
        raise ValueError("begins where it ends, or later")
    resolution = next((one for one in Resolution if begin >= now - KEPT_SECONDS[one] + one), Resolution.HOUR)
    if step is None:
        wanted = (end - begin) / _POINTS_WANTED
        step = next((one for one in _STEPS if one >= max(wanted, resolution)), _STEPS[-1])
    step = -(-step // resolution) * resolution
    whole = begin - begin % step
    last = end + -end % step
    if (last - whole) // step > POINTS_AT_MOST:
        raise ValueError(f"makes more than {POINTS_AT_MOST} points")
    return Span(whole, last, step, resolution)


def history(rows: Sequence[Series], span: Span) -> list[SeriesHistory]:
    """Of these series; a handful of queries, however many."""
    known = position()
    ids = [row.pk for row in rows]
    points = points_between(ids, span.begin, span.end, span.step)
    before = levels_before(Series.objects.filter(pk__in=ids), span.begin)
    gaps = gaps_between(span.begin, span.end)
    done = 0 if known is None else known.seconds_done
    return [
        SeriesHistory(row.key, _columns(before.get(row.pk), points.get(row.pk, []), span, gaps, done))
        for row in rows
    ]


def _columns(
    before: Levels | None, points: Sequence[Point], span: Span, gaps: Sequence[tuple[int, int]], done: int
) -> dict[str, list[Any]]:
    by_time = {point.at: point for point in points}
    columns: dict[str, list[Any]] = {name: [] for name in (*LEVEL_COLUMNS, *AMOUNT_COLUMNS)}
    levels, nothing = before, Amounts()
    for at in span.times:
        point = by_time.get(at)
        had = levels
        if point is not None:
            levels = point.levels
        is_known = levels is not None and at < done and not _is_within(at, at + span.step, gaps)
        peak = max(
            (had or _NONE).used_bytes, (levels or _NONE).used_bytes, 0 if point is None else point.peak_bytes
        )
        columns["peak_bytes"].append(peak if is_known else None)
        for name in LEVEL_NAMES:
            columns[name].append(getattr(levels, name) if is_known else None)
        for name, figure in amounts_form(nothing if point is None else point.amounts).items():
            columns[name].append(figure)
    return columns


_NONE = Levels()


def _is_within(begin: int, end: int, gaps: Sequence[tuple[int, int]]) -> bool:
    return any(first <= begin and end <= last for first, last in gaps)
