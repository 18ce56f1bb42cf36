"""Figures of reclaim for /metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from apps.capacity.models import ReclaimTotal
from apps.capacity.selectors import OpenRuns, open_runs, run_totals
from apps.common.redis_client import index_client
from kvcm_platform.index import reclaim_desk
from kvcm_platform.index.reclaim_book import Trouble

_TEXTS = {
    "runs": "Reclaim runs that are over",
    "failed_runs": "Those of them that failed",
    "chosen_blocks": "Blocks that reclaim took out of service",
    "chosen_bytes": "Bytes of these blocks",
    "freed_blocks": "Blocks of these that were deleted",
    "freed_bytes": "Bytes of these",
}
_NAMES = {"chosen_blocks": "evicted_blocks", "chosen_bytes": "evicted_bytes"}
_LABELS = ("instance_group", "trigger")
_OPEN_TEXTS = {
    "runs": ("kvcm_reclaim_runs_open", "Reclaim runs that are not over"),
    "waiting_blocks": ("kvcm_reclaim_waiting_blocks", "Blocks out of service that are not deleted yet"),
    "waiting_bytes": ("kvcm_reclaim_waiting_bytes", "Bytes of these blocks"),
}


class _Reclaim(Collector):
    def __init__(
        self,
        totals: Sequence[ReclaimTotal],
        opened: Sequence[OpenRuns],
        troubles: Mapping[str, Trouble],
    ) -> None:
        self._totals = totals
        self._opened = opened
        self._troubles = troubles

    def collect(self) -> Iterator[Metric]:
        for name, text in _TEXTS.items():
            family = CounterMetricFamily(f"kvcm_reclaim_{_NAMES.get(name, name)}", text, labels=_LABELS)
            for total in self._totals:
                family.add_metric((total.group_name, total.trigger), getattr(total, name))
            yield family
        seconds = SummaryMetricFamily(
            "kvcm_reclaim_run_seconds", "From the begin of runs to their last byte freed", labels=_LABELS
        )
        for total in self._totals:
            seconds.add_metric((total.group_name, total.trigger), total.runs, total.seconds)
        yield seconds
        for member, (name, text) in _OPEN_TEXTS.items():
            gauge = GaugeMetricFamily(name, text, labels=("instance_group",))
            for one in self._opened:
                gauge.add_metric((one.group,), getattr(one, member))
            yield gauge
        failing = GaugeMetricFamily(
            "kvcm_reclaim_failing",
            "1 for groups of which nothing can be reclaimed",
            labels=("instance_group",),
        )
        for group in sorted(self._troubles):
            failing.add_metric((group,), 1)
        yield failing


def collectors() -> Iterator[Collector]:
    """Read now, all at once. Raises redis.RedisError and django.db.DatabaseError."""
    yield _Reclaim(run_totals(), open_runs(), reclaim_desk.troubles(index_client()))
