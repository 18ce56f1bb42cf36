"""Figures of the optimizer for /metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.optimizer_reports.choices import OPEN_JOBS
from apps.optimizer_reports.selectors.runs import jobs_by_state, open_estimate_seconds
from apps.optimizer_reports.selectors.traces import traces_bytes


class _Optimizer(Collector):
    def __init__(self, jobs: Mapping[str, int], waiting_seconds: float, stored_bytes: int) -> None:
        self._jobs = jobs
        self._waiting_seconds = waiting_seconds
        self._stored_bytes = stored_bytes

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("kvcm_optimizer_jobs", "Jobs that are not over", labels=("state",))
        for state in OPEN_JOBS:
            jobs.add_metric((state,), self._jobs.get(state, 0))
        yield jobs
        yield GaugeMetricFamily(
            "kvcm_optimizer_open_seconds",
            "Computing that is asked for and not done, as it is estimated",
            value=self._waiting_seconds,
        )
        yield GaugeMetricFamily("kvcm_optimizer_trace_bytes", "Files of all traces", value=self._stored_bytes)


def collectors() -> Iterator[Collector]:
    """Read now. Raises django.db.DatabaseError."""
    yield _Optimizer(jobs_by_state(), open_estimate_seconds(), traces_bytes())
