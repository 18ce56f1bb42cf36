"""Growth out of the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.usage.choices import Kind
from apps.usage.models import Series
from apps.usage.selectors.points import gaps_between, levels_before, points_between
from kvcm_platform.core.growth import Growth, trend_of, turnover_of
from kvcm_platform.core.points import Levels, Point


@dataclass(frozen=True, slots=True)
class Seen:
    """What a series did in a time. `peak_bytes` is the most that was used, pending deletions included."""

    growth: Growth
    peak_bytes: int


def seen_over(series: QuerySet[Series], until: int, seconds: int, step: int) -> dict[int, Seen]:
    """By row key, over the `seconds` before `until` in steps; a handful of queries, however many series."""
    end = until - until % step
    begin = end - seconds
    kinds = dict(series.values_list("pk", "kind"))
    before = levels_before(series, begin)
    points = points_between(list(kinds), begin, end, step)
    gaps = gaps_between(begin, end)
    found = {}
    for key, kind in kinds.items():
        own = points.get(key, [])
        sizes = list(_sizes(before.get(key), own, range(begin, end, step), gaps))
        written = sum(point.amounts.written_bytes for point in own if sizes and point.at > sizes[0][0])
        has_traffic = kind != Kind.STORAGE.value
        peak = max(
            [0] + [point.peak_bytes for point in own] + [had.used_bytes for had in (before.get(key),) if had]
        )
        found[key] = Seen(Growth(trend_of(sizes), turnover_of(sizes, written) if has_traffic else None), peak)
    return found


def _sizes(
    before: Levels | None, points: Sequence[Point], times: range, gaps: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """What was live at the end of each step, without those from before it is known and those in gaps."""
    by_time: Mapping[int, Point] = {point.at: point for point in points}
    levels = before
    for at in times:
        point = by_time.get(at)
        levels = levels if point is None else point.levels
        is_unknown = any(begin <= at + times.step - 1 < end for begin, end in gaps)
        if levels is not None and not is_unknown:
            yield at, levels.live_bytes
