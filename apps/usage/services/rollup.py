"""Makes points of minutes and hours out of finer ones, and drops those that have been kept long enough.

Every step may be repeated or done twice at once: a time is made anew from what it is made of, and only
times are taken that can get no further points.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, astuple

from django.db import transaction
from django.db.models import QuerySet

from apps.usage.choices import KEPT_SECONDS, Resolution
from apps.usage.models import Position, Sample, SamplingGap, SecondsChunk, Series
from apps.usage.packing import buckets_text, unpack
from apps.usage.selectors.points import SAMPLE_MEMBERS, point_of, position, samples_between
from kvcm_platform.core.points import COUNT_NAMES, LEVEL_NAMES, Point, merged

_MINUTES_AT_ONCE = 5
"""Of one transaction: a thousand busy instances make as many rows a minute."""
_ROWS_A_STATEMENT = 500
_DROPPED_AT_ONCE = 5000
_BATCHES_AT_MOST = 20
_UNROLLED_KEPT_SECONDS = 24 * 3600
_VALUES = (*LEVEL_NAMES, "peak_bytes", *COUNT_NAMES, "read_us", "write_us")


def roll_up(*, seconds: float = 30.0) -> dict[str, int]:
    """Roll up what is complete, for about `seconds` at most; returns how many rows of each kind were made."""
    made = {"minutes": 0, "hours": 0}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows = _roll_minutes() or 0
        made["minutes"] += rows
        if not rows:
            break
    while time.monotonic() < deadline:
        rows = _roll_hour()
        made["hours"] += rows
        if not rows:
            break
    return made


def _roll_minutes() -> int:
    """The next minutes that have points; 0 = there is none that is complete."""
    known = position()
    if known is None:
        return 0
    complete = known.seconds_done - known.seconds_done % Resolution.MINUTE
    waiting = SecondsChunk.objects.filter(at__gte=known.minutes_done, at__lt=complete)
    first = waiting.order_by("at").values_list("at", flat=True).first()
    begin = complete if first is None else first - first % Resolution.MINUTE
    end = min(complete, begin + _MINUTES_AT_ONCE * Resolution.MINUTE)
    points: dict[int, list[Point]] = defaultdict(list)
    chunks = SecondsChunk.objects.filter(at__gte=begin, at__lt=end).order_by("at")
    for series_id, at, data in chunks.values_list("series_id", "at", "points").iterator():
        points[series_id] += unpack(data, at)
    rows = _rows(points, Resolution.MINUTE)
    with transaction.atomic():
        _write(rows)
        _note_levels({series_id: own[-1] for series_id, own in points.items()})
        Position.objects.filter(pk=known.pk, minutes_done__lt=end).update(minutes_done=end)
    return len(rows)


def _roll_hour() -> int:
    known = position()
    if known is None:
        return 0
    complete = known.minutes_done - known.minutes_done % Resolution.HOUR
    waiting = samples_between(Resolution.MINUTE, known.hours_done, complete)
    first = waiting.order_by("at").values_list("at", flat=True).first()
    begin = complete if first is None else first - first % Resolution.HOUR
    end = min(complete, begin + Resolution.HOUR)
    minutes = samples_between(Resolution.MINUTE, begin, end).order_by("series_id", "at")
    points: dict[int, list[Point]] = defaultdict(list)
    for row in minutes.values_list(*SAMPLE_MEMBERS).iterator():
        # At once: an hour of all series, minute by minute, need not be in memory.
        series_id = row[0]
        points[series_id] = merged([*points[series_id], point_of(row)], Resolution.HOUR)
    rows = _rows(points, Resolution.HOUR)
    with transaction.atomic():
        _write(rows)
        Position.objects.filter(pk=known.pk, hours_done__lt=end).update(hours_done=end)
    return len(rows)


def _rows(points: dict[int, list[Point]], resolution: Resolution) -> list[Sample]:
    return [
        _sample(series_id, resolution, point)
        for series_id, own in points.items()
        for point in merged(own, resolution)
    ]


def _sample(series_id: int, resolution: Resolution, point: Point) -> Sample:
    values = (
        *astuple(point.levels),
        point.peak_bytes,
        *point.amounts.counts(),
        buckets_text(point.amounts.read_us),
        buckets_text(point.amounts.write_us),
    )
    return Sample(
        series_id=series_id,
        resolution=resolution,
        at=point.at,
        **dict(zip(_VALUES, values, strict=True)),
    )


def _write(rows: Iterable[Sample]) -> None:
    Sample.objects.bulk_create(
        rows,
        batch_size=_ROWS_A_STATEMENT,
        update_conflicts=True,
        unique_fields=["series", "resolution", "at"],
        update_fields=list(_VALUES),
    )


def _note_levels(newest: dict[int, Point]) -> None:
    """What each series holds since when, for times after which nothing changes for long."""
    rows = Series.objects.in_bulk(list(newest))
    for series_id, row in rows.items():
        row.levels, row.levels_at = asdict(newest[series_id].levels), newest[series_id].at
    Series.objects.bulk_create(
        rows.values(),
        batch_size=_ROWS_A_STATEMENT,
        update_conflicts=True,
        unique_fields=["kind", "name", "group_name"],
        update_fields=["levels", "levels_at"],
    )


def history_prune(*, now: int) -> int:
    """Drop points that are old enough, in transactions of a bounded size; returns how many rows went.

    Bounded as a whole, too: what is left goes the next time.
    """
    known = position()
    if known is None:
        return 0
    seconds = _bound(Resolution.SECOND, now, known.minutes_done)
    dropped = _drop(SecondsChunk.objects.filter(at__lt=seconds))
    minutes = _bound(Resolution.MINUTE, now, known.hours_done)
    dropped += _drop(Sample.objects.filter(resolution=Resolution.MINUTE, at__lt=minutes))
    hours = now - KEPT_SECONDS[Resolution.HOUR]
    dropped += _drop(Sample.objects.filter(resolution=Resolution.HOUR, at__lt=hours))
    oldest = now - KEPT_SECONDS[Resolution.HOUR] - Resolution.HOUR
    dropped += _drop(SamplingGap.objects.filter(end_at__lt=oldest), by="end_at")
    ids = list(Series.objects.filter(ended_at__lt=oldest).values_list("pk", flat=True)[:_ROWS_A_STATEMENT])
    return dropped + Series.objects.filter(pk__in=ids).delete()[0]


def _bound(resolution: Resolution, now: int, rolled_up: int) -> int:
    """Before when points of a resolution go: those that no rollup took stay longer, but not for ever."""
    oldest = now - KEPT_SECONDS[resolution]
    return max(min(oldest, rolled_up), oldest - _UNROLLED_KEPT_SECONDS)


def _drop(rows: QuerySet, *, by: str = "at") -> int:
    """Oldest first, some thousand at a time."""
    gone = 0
    for _ in range(_BATCHES_AT_MOST):
        times = rows.order_by(by).values_list(by, flat=True)
        bound = times[_DROPPED_AT_ONCE : _DROPPED_AT_ONCE + 1].first()
        if bound is None:
            return gone + rows.order_by().delete()[0]
        # Of one time there are as many rows as series: those go together.
        gone += rows.filter(**{f"{by}__lte": bound}).order_by().delete()[0]
    return gone
