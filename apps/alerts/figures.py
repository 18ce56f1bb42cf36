"""Figures of alerts for /metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.alerts.selectors import FiringCount, firing_counts


class _Firing(Collector):
    def __init__(self, counts: list[FiringCount]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        firing = GaugeMetricFamily("kvcm_alerts_firing", "Alerts that fire", labels=("rule", "severity"))
        for count in self._counts:
            firing.add_metric((count.rule, count.severity), count.firing)
        yield firing


def collectors() -> Iterator[Collector]:
    """Read now, all at once. Raises django.db.DatabaseError."""
    yield _Firing(firing_counts())
