"""Figures of migrations for /metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.common.redis_client import index_client
from apps.copies.selectors import open_counts
from kvcm_platform.index import copy_totals

_TEXTS = {
    "copied_blocks": "Blocks copied to another storage",
    "copied_bytes": "Bytes of these blocks",
    "there_blocks": "Blocks that the other storage had already",
    "there_bytes": "Bytes of these blocks",
    "skipped_blocks": "Blocks that were busy, or gone meanwhile",
    "failed_blocks": "Blocks that could not be copied",
}
_LABELS = ("instance_group", "direction")


class _Copies(Collector):
    def __init__(
        self, totals: Mapping[tuple[str, str], Mapping[str, int]], opened: Mapping[tuple[str, str], int]
    ) -> None:
        self._totals = totals
        self._opened = opened

    def collect(self) -> Iterator[Metric]:
        for name, text in _TEXTS.items():
            family = CounterMetricFamily(f"kvcm_migration_{name}", text, labels=_LABELS)
            for labels, amounts in self._totals.items():
                family.add_metric(labels, amounts[name])
            yield family
        runs = GaugeMetricFamily("kvcm_migrations_open", "Migrations that are not over", labels=_LABELS)
        for labels, count in self._opened.items():
            runs.add_metric(labels, count)
        yield runs


def collectors() -> Iterator[Collector]:
    """Read now, all at once. Raises redis.RedisError and django.db.DatabaseError."""
    yield _Copies(copy_totals.totals(index_client()), open_counts())
