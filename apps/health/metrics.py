"""The platform's figures in Prometheus's text form, made from the overview at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import redis
from django.db import DatabaseError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.common.figures import declared_figures
from apps.common.redis_client import index_client
from apps.live.overview import Picture, overview
from kvcm_platform.index.heartbeat import Process, processes
from kvcm_platform.index.stats import AdmissionTotals, admissions_of_all

CONTENT_TYPE = CONTENT_TYPE_LATEST

_COUNTERS = {
    "requests": "Calls of the data plane about an instance's blocks",
    "requested_blocks": "Blocks asked for by matches",
    "hit_blocks": "Blocks that matches found",
    "written_blocks": "Blocks finished by writers",
    "write_refused": "Starts that got no place for their blocks",
    "quota_refused": "Those of them that a quota or max_key_count refused",
}
_GAUGES = {
    "used_bytes": "Bytes that count against quotas, reservations excepted",
    "reserved_bytes": "Bytes reserved by open write sessions",
    "pending_bytes": "Bytes waiting for deletion from their storage",
    "quota_bytes": "Sum of the instance groups' quotas",
    "blocks": "Blocks in the index",
    "open_write_sessions": "Write sessions that are open",
    "storages_healthy": "Storages that are enabled and available",
    "storages_total": "Storages",
    "groups_total": "Instance groups",
    "instances_total": "Registered instances",
}
_ADMISSIONS = {
    "allowed_calls": "Calls that the group's limits let through",
    "allowed_blocks": "Blocks that these calls named",
    "refused_calls": "Calls past the group's limits",
    "refused_blocks": "Blocks that these calls named",
    "refused_sessions": "Write sessions past the group's share",
}
_SEARCH_CACHE = {
    "hit_chunks": "Prefix chunks found in the memory of a metadata process",
    "miss_chunks": "Prefix chunks read from the index and kept",
    "invalidated_chunks": "Chunks that a change of their blocks took out",
    "evicted_chunks": "Chunks that made room for others",
    "resets": "Times that an instance's part was emptied as a whole",
}
_STATES = {"ok": 0, "degraded": 1, "down": 2}


class _Overview(Collector):
    """Turns one picture into metrics."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def collect(self) -> Iterator[Metric]:
        picture = self._picture
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"kvcm_{name}", text, value=picture["totals"][name])
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"kvcm_{name}", text, value=picture[name])
        yield GaugeMetricFamily(
            "kvcm_verdict", "0 ok, 1 degraded, 2 down", value=_STATES[picture["verdict"]["state"]]
        )
        up = GaugeMetricFamily(
            "kvcm_process_up", "1 when heard of within 5 s", labels=("role", "node", "pid")
        )
        restarts = GaugeMetricFamily(
            "kvcm_process_restarts", "Restarts by the supervisor", labels=("role", "node", "pid")
        )
        for process in picture["processes"]:
            labels = (process["role"], process["node"], str(process["pid"]))
            up.add_metric(labels, float(process["state"] == "ok"))
            restarts.add_metric(labels, process["restarts"])
        yield up
        yield restarts
        calls = GaugeMetricFamily("kvcm_rpc_per_second", "Calls a second over 10 s", labels=("rpc",))
        latency = GaugeMetricFamily(
            "kvcm_rpc_latency_seconds", "Upper bound of the quantile over 10 s", labels=("rpc", "quantile")
        )
        for rpc in picture["rpcs"]:
            calls.add_metric((rpc["name"],), rpc["per_second"])
            for quantile in ("p50", "p99"):
                milliseconds = rpc[f"{quantile}_ms"]
                if milliseconds is not None:
                    latency.add_metric((rpc["name"], f"0.{quantile[1:]}"), milliseconds / 1000)
        yield calls
        yield latency


class _Admissions(Collector):
    """What the limits of instance groups allowed and refused."""

    def __init__(self, totals: Mapping[str, AdmissionTotals]) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        for name, text in _ADMISSIONS.items():
            family = CounterMetricFamily(f"kvcm_group_{name}", text, labels=("instance_group",))
            for group, totals in self._totals.items():
                family.add_metric((group,), getattr(totals, name))
            yield family


class _SearchCaches(Collector):
    """The search cache of each metadata process, as its last sign of life told."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._caches = [(p.node, str(p.pid), p.detail["search_cache"]) for p in processes if p.detail]

    def collect(self) -> Iterator[Metric]:
        labels = ("node", "pid")
        for name, text in _SEARCH_CACHE.items():
            family = CounterMetricFamily(f"kvcm_search_cache_{name}", text, labels=labels)
            for node, pid, counters in self._caches:
                family.add_metric((node, pid), counters[name])
            yield family
        size = GaugeMetricFamily("kvcm_search_cache_bytes", "Bytes that the chunks take", labels=labels)
        for node, pid, counters in self._caches:
            size.add_metric((node, pid), counters["bytes"])
        yield size


def exposition() -> bytes:
    registry = CollectorRegistry()
    registry.register(_Overview(overview().picture(max_age=0.5)))
    # The overview says that the index is down; what cannot be read is left out.
    with suppress(redis.RedisError):
        client = index_client()
        registry.register(_Admissions(admissions_of_all(client)))
        alive = [process for process in processes(client) if process.role == "metadata"]
        registry.register(_SearchCaches(alive))
    for collectors in declared_figures():
        with suppress(redis.RedisError, DatabaseError):
            for collector in collectors():
                registry.register(collector)
    return generate_latest(registry)
