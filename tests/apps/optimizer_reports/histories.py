"""Histories of groups and instances, as the sampler and its rollups leave them."""

from __future__ import annotations

from apps.usage.choices import Kind, Resolution
from apps.usage.models import Position, Sample, Series

_LEVELS = ("writing_bytes", "serving_bytes", "pending_bytes", "reserved_bytes", "blocks")


class History:
    """Points of groups and instances, as rollups leave them."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Series] = {}

    def series(self, kind: Kind, name: str, group: str = "") -> Series:
        key = (kind.value, name)
        if key not in self._series:
            self._series[key] = Series.objects.create(kind=kind.value, name=name, group_name=group)
        return self._series[key]

    def held(
        self, at: int, used: int, group: str = "chat", resolution: int = Resolution.MINUTE, **amounts: int
    ) -> None:
        own = self.series(Kind.GROUP, group)
        self._sample(own, at, resolution, used_bytes=used, peak_bytes=used, **amounts)

    def asked(
        self,
        at: int,
        requests: int,
        tokens: int,
        hits: int,
        instance: str = "m1",
        group: str = "chat",
        resolution: int = Resolution.MINUTE,
    ) -> None:
        own = self.series(Kind.INSTANCE, instance, group)
        amounts = {"requests": requests, "requested_tokens": tokens, "hit_tokens": hits}
        self._sample(own, at, resolution, used_bytes=0, peak_bytes=0, **amounts)

    def _sample(self, series: Series, at: int, resolution: int, **values: int) -> None:
        Sample.objects.create(
            series=series, at=at, resolution=int(resolution), **dict.fromkeys(_LEVELS, 0), **values
        )

    def done(self, seconds: int, hours: int) -> None:
        """Points are complete up to `seconds`, hours up to `hours`."""
        Position.objects.update_or_create(
            pk=1, defaults={"seconds_done": seconds, "minutes_done": seconds, "hours_done": hours}
        )
