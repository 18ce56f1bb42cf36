"""Brings the trends of groups and storages up to date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django.db.models import QuerySet

from apps.usage.choices import Kind
from apps.usage.growth import Growth, trend_of, turnover_of
from apps.usage.models import Series
from apps.usage.points import Levels, Point
from apps.usage.selectors import gaps_between, levels_before, points_between, position

_WINDOWS = ((6 * 3600, 300), (3600, 60), (900, 15))
"""Seconds looked at, in steps of so many; the longest of which half is known counts."""
_LONG_EVERY_SECONDS = 300
"""A trend over hours need not be new each minute."""
_WITH_GROWTH = (Kind.PLATFORM.value, Kind.GROUP.value, Kind.STORAGE.value)


def growth_refresh() -> int:
    """Work out the trends that are due; returns of how many series."""
    known = position()
    if known is None:
        return 0
    rows = Series.objects.filter(ended_at__isnull=True, kind__in=_WITH_GROWTH)
    is_whole = known.seconds_done // 60 * 60 % _LONG_EVERY_SECONDS == 0
    waiting = {
        row.pk: row for row in rows if is_whole or row.growth is None or row.growth["span_seconds"] < 3600
    }
    done: list[Series] = []
    for seconds, step in _WINDOWS:
        found = _growths(rows.filter(pk__in=list(waiting)), known.seconds_done, seconds, step)
        is_last = seconds == _WINDOWS[-1][0]
        for key, growth in found.items():
            if is_last or growth.trend.span_seconds + step >= seconds / 2:
                row = waiting.pop(key)
                row.growth = growth.to_dict()
                done.append(row)
        if not waiting:
            break
    Series.objects.bulk_update(done, ["growth"], batch_size=50)
    return len(done)


def _growths(series: QuerySet[Series], until: int, seconds: int, step: int) -> dict[int, Growth]:
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
        found[key] = Growth(trend_of(sizes), turnover_of(sizes, written) if has_traffic else None)
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
