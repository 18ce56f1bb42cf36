"""How much was written at most in a short time."""

from __future__ import annotations

from django.db.models import Max

from apps.usage.choices import Kind, Resolution
from apps.usage.models import Sample
from apps.usage.selectors.points import position

_LOOKED_BACK = {Resolution.MINUTE: 24 * 3600, Resolution.HOUR: 7 * 24 * 3600}


def peak_written_bytes_per_second(group_name: str) -> float:
    """Of a group: the most of any minute of the last day, or of any hour of the last week; 0 = not known."""
    known = position()
    if known is None:
        return 0.0
    rates = []
    for resolution, seconds in _LOOKED_BACK.items():
        samples = Sample.objects.filter(
            series__kind=Kind.GROUP.value,
            series__name=group_name,
            resolution=int(resolution),
            at__gte=known.seconds_done - seconds,
        )
        rates.append((samples.aggregate(most=Max("written_bytes"))["most"] or 0) / int(resolution))
    return max(rates)
