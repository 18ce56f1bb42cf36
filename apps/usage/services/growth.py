"""Brings the trends of groups and storages up to date."""

from __future__ import annotations

from apps.usage.choices import Kind
from apps.usage.models import Series
from apps.usage.selectors.points import position
from apps.usage.selectors.trends import seen_over

_WINDOWS = ((6 * 3600, 300), (3600, 60), (900, 15))
"""Seconds looked at, in steps of so many; the longest of which half is known counts."""
_LONG_EVERY_SECONDS = 300
"""A trend over hours need not be new each minute."""
_WITH_GROWTH = (Kind.GROUP.value, Kind.STORAGE.value)


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
        found = seen_over(rows.filter(pk__in=list(waiting)), known.seconds_done, seconds, step)
        is_last = seconds == _WINDOWS[-1][0]
        for key, seen in found.items():
            if is_last or seen.growth.trend.span_seconds + step >= seconds / 2:
                row = waiting.pop(key)
                row.growth = seen.growth.to_dict()
                done.append(row)
        if not waiting:
            break
    Series.objects.bulk_update(done, ["growth"], batch_size=50)
    return len(done)
