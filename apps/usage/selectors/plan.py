"""Puts together what a plan of capacity goes by: levels of now, and a week of history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.common.actor import Actor
from apps.usage.choices import Kind, RowKind
from apps.usage.models import Series
from apps.usage.selectors.now import RowKey, UsageRow, rows_of
from apps.usage.selectors.points import position
from apps.usage.selectors.trends import Seen, seen_over
from kvcm_platform.core.capacity_plan import DAY, Advice, advice
from kvcm_platform.core.growth import Growth, Outlook, outlook_of
from kvcm_platform.core.points import Levels

_WEEK = 7 * DAY
_STEP = 3600
_ENOUGH_SECONDS = DAY
"""Shorter than this, the trend of the last hours says as much."""
_KINDS = {RowKind.GROUP: Kind.GROUP, RowKind.STORAGE: Kind.STORAGE}


@dataclass(frozen=True, slots=True)
class PlanRow:
    """`growth` is over up to a week. `levels` and `advice` are None while the index does not answer."""

    key: RowKey
    levels: Levels | None
    peak_bytes: int
    growth: Growth
    outlook: Outlook | None
    advice: Advice | None


def plan_of(keys: Sequence[RowKey], *, acting: Actor, horizon_days: int) -> list[PlanRow]:
    """One row for each group or storage of a page."""
    seen = _seen(keys)
    return [_row(row, seen.get(row.key), horizon_days) for row in rows_of(keys, acting=acting)]


def _seen(keys: Sequence[RowKey]) -> dict[RowKey, Seen]:
    known = position()
    if known is None:
        return {}
    rows = Series.objects.none()
    for kind, series_kind in _KINDS.items():
        names = [key.name for key in keys if key.kind is kind]
        rows = rows | Series.objects.filter(kind=series_kind.value, name__in=names)
    found = seen_over(rows, known.seconds_done, _WEEK, _STEP)
    by_series = {_KINDS[key.kind]: key.kind for key in keys}
    return {RowKey(by_series[row.key.kind], row.name): found[row.pk] for row in rows if row.pk in found}


def _row(row: UsageRow, seen: Seen | None, horizon_days: int) -> PlanRow:
    recent = row.growth or Growth()
    seen = seen or Seen(recent, 0)
    growth = seen.growth if seen.growth.trend.span_seconds >= _ENOUGH_SECONDS else recent
    if row.levels is None:
        return PlanRow(row.key, None, seen.peak_bytes, growth, None, None)
    outlook = outlook_of(growth, row.levels, room_bytes=row.device_free_bytes)
    counted = row.levels
    if counted.limit_bytes is None and row.device_free_bytes is not None:
        # Without a capacity of its own a storage has what is there and what its device has left.
        counted = replace(counted, limit_bytes=counted.used_bytes + row.device_free_bytes, high_bytes=None)
    said = advice(
        row.key.name, counted, growth, outlook, peak_bytes=seen.peak_bytes, horizon_days=horizon_days
    )
    return PlanRow(row.key, counted, max(seen.peak_bytes, counted.counted_bytes), growth, outlook, said)


def plan_keys(keys: Sequence[RowKey]) -> list[RowKey]:
    """Those of which there is a history."""
    return [key for key in keys if key.kind in _KINDS]
