"""Reads of the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from apps.usage.choices import Resolution
from apps.usage.models import Position, Sample, SamplingGap, SecondsChunk, Series
from apps.usage.packing import buckets_of, unpack
from kvcm_platform.core.points import COUNT_NAMES, Amounts, Levels, Point, merged

SAMPLE_MEMBERS = (
    *("series_id", "at", "used_bytes", "writing_bytes", "serving_bytes", "pending_bytes", "reserved_bytes"),
    *("blocks", "limit_bytes", "high_bytes", "low_bytes", "peak_bytes", *COUNT_NAMES, "read_us", "write_us"),
)
_LEVELS = slice(2, 11)
_PEAK = 11
_COUNTS = slice(12, -2)


def position() -> Position | None:
    """How far the history is; None before its first point."""
    return Position.objects.first()


def levels_before(series: QuerySet[Series], moment: int) -> dict[int, Levels]:
    """What was held just before `moment` (unix seconds, a whole minute or hour for times long past).

    Every change is a point, and what is coarser was made of finer ones before these went: so the newest of
    the finest that are there is the answer. At most three queries, however many series.
    """
    chunks = SecondsChunk.objects.filter(series=OuterRef("pk"), at__lt=moment)
    rows = series.annotate(
        chunk=Subquery(chunks.order_by("-at").values("pk")[:1]),
        minute=Subquery(_newest(Resolution.MINUTE, moment)),
        hour=Subquery(_newest(Resolution.HOUR, moment)),
    )
    found: dict[int, Levels] = {}
    chunk_of: dict[int, int] = {}
    sample_of: dict[int, int] = {}
    for row in rows:
        sample = row.minute or row.hour
        if row.chunk:
            chunk_of[row.pk] = row.chunk
        elif sample:
            sample_of[row.pk] = sample
        elif row.levels is not None and row.levels_at < moment:
            found[row.pk] = Levels(**row.levels)
    for chunk in SecondsChunk.objects.in_bulk(list(chunk_of.values())).values():
        points = [point for point in unpack(chunk.points, chunk.at) if point.at < moment]
        found[chunk.series_id] = points[-1].levels
    for one in Sample.objects.in_bulk(list(sample_of.values())).values():
        found[one.series_id] = one.levels
    return found


def _newest(resolution: Resolution, moment: int) -> QuerySet[Sample]:
    samples = Sample.objects.filter(series=OuterRef("pk"), resolution=resolution, at__lte=moment - resolution)
    return samples.order_by("-at").values("pk")[:1]


def points_between(series_ids: Sequence[int], begin: int, end: int, step: int) -> dict[int, list[Point]]:
    """Points of `step` seconds each, by series, those of `begin <= at < end` in order of time.

    They are made of the coarsest that fits the step and still reaches back to `begin`; what was not rolled up
    yet is filled in from the finer. At most three queries.
    """
    known = position()
    if known is None:
        return {}
    found: dict[int, list[Point]] = defaultdict(list)
    at = begin
    if step % Resolution.HOUR == 0 and at < known.hours_done:
        until = min(end, known.hours_done)
        _add_samples(found, series_ids, Resolution.HOUR, at, until)
        at = until
    if step % Resolution.MINUTE == 0 and at < known.minutes_done and at < end:
        until = min(end, known.minutes_done)
        _add_samples(found, series_ids, Resolution.MINUTE, at, until)
        at = until
    if at < end:
        chunks = SecondsChunk.objects.filter(series__in=series_ids, at__gt=at - Resolution.MINUTE, at__lt=end)
        for series_id, begun, data in chunks.order_by("at").values_list("series_id", "at", "points"):
            found[series_id] += [point for point in unpack(data, begun) if at <= point.at < end]
    return {series_id: merged(points, step) for series_id, points in found.items()}


def _add_samples(
    found: dict[int, list[Point]], series_ids: Sequence[int], resolution: Resolution, begin: int, end: int
) -> None:
    rows = samples_between(resolution, begin, end).filter(series__in=series_ids)
    for row in rows.order_by("at").values_list(*SAMPLE_MEMBERS):
        found[row[0]].append(point_of(row))


def samples_between(resolution: Resolution, begin: int, end: int) -> QuerySet[Sample]:
    return Sample.objects.filter(resolution=resolution, at__gte=begin, at__lt=end)


def point_of(row: Sequence[Any]) -> Point:
    """Of a row's SAMPLE_MEMBERS."""
    amounts = Amounts(*row[_COUNTS])
    amounts.read_us, amounts.write_us = map(buckets_of, row[-2:])
    return Point(row[1], Levels(*row[_LEVELS]), row[_PEAK], amounts)


def gaps_between(begin: int, end: int) -> list[tuple[int, int]]:
    """The times in which nobody looked, as (begin, end)."""
    rows = SamplingGap.objects.filter(end_at__gt=begin, begin_at__lt=end).order_by("begin_at")
    return list(rows.values_list("begin_at", "end_at"))
