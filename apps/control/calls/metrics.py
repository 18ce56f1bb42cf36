"""GetMetrics: the figures of the index under the reference's names where it has one (WIRE.md 6.6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

from apps.common.actor import Role
from apps.common.redis_client import figures_client, index_client
from apps.control.calls.call import Call, Rpc
from apps.instances.selectors import group_details, group_list, instance_list
from apps.storages.selectors import storage_entries
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, StorageEntry
from kvcm_platform.core.types import URI_SCHEME
from kvcm_platform.index.heartbeat import processes
from kvcm_platform.index.stats import admissions, counters, group_usages, instance_usages
from kvcm_platform.pb import admin_service_pb2 as pb


def get_metrics(call: Call) -> pb.GetMetricsResponse:
    instances = [row.entry() for row in instance_list(acting=call.acting)]
    groups = [detail.entry for detail in group_details(list(group_list(acting=call.acting)))]
    metrics = [
        *_of_storages(storage_entries()),
        *_of_groups(groups),
        *_of_instances(instances),
        *_of_search_caches(),
    ]
    return pb.GetMetricsResponse(timestamp=round(time.time() * 1000), metrics=metrics)


def _metric(name: str, value: int | float, **tags: str) -> pb.MetricsData:
    kind = {"int_value": value} if isinstance(value, int) else {"float_value": value}
    return pb.MetricsData(
        metric_name=name,
        metric_value=pb.MetricValue(**kind),
        metric_tags=[pb.MetricsTag(tag_key=key, tag_value=text) for key, text in tags.items()],
    )


def _of_storages(storages: list[StorageEntry]) -> Iterator[pb.MetricsData]:
    for storage in storages:
        tags = {"type": URI_SCHEME[storage.type], "unique_name": storage.name}
        yield _metric("data_storage.healthy_status", int(storage.is_served), **tags)


def _of_groups(groups: list[GroupEntry]) -> Iterator[pb.MetricsData]:
    usages = group_usages(figures_client(), [group.number for group in groups])
    totals = admissions(index_client(), [group.name for group in groups])
    for group in groups:
        used = usages[group.number].used_bytes + usages[group.number].reserved_bytes
        capacity = group.quota.capacity_bytes
        tags = {"instance_group": group.name}
        yield _metric("cache_manager_group.usage_ratio", used / capacity if capacity else 0.0, **tags)
        yield _metric("cache_manager_group.byte_size", used, **tags)
        for name, total in asdict(totals[group.name]).items():
            yield _metric(f"cache_manager_group.{name}", total, **tags)


def _of_instances(instances: list[InstanceEntry]) -> Iterator[pb.MetricsData]:
    client = figures_client()
    usages = instance_usages(client, instances)
    traffic = counters(client, [instance.instance_id for instance in instances])
    for instance in instances:
        tags = {"instance_group": instance.group, "instance_id": instance.instance_id}
        usage, totals = usages[instance.instance_id], traffic[instance.instance_id]
        yield _metric("cache_manager_instance.key_count", usage.blocks, **tags)
        yield _metric("cache_manager_instance.byte_size", usage.used_bytes, **tags)
        yield _metric("cache_manager_instance.open_write_sessions", usage.open_write_sessions, **tags)
        yield _metric("service.query_counter", totals.requests, **tags)
        yield _metric("manager.requested_block_count", totals.requested_blocks, **tags)
        yield _metric("manager.hit_block_count", totals.hit_blocks, **tags)
        yield _metric("manager.write_refused_count", totals.write_refused, **tags)
        yield _metric("manager.quota_refused_count", totals.quota_refused, **tags)
        yield _metric("manager.hit_ratio", totals.hit_rate or 0.0, **tags)


def _of_search_caches() -> Iterator[pb.MetricsData]:
    """One set a metadata process; a prefix chunk of up to 64 blocks is a hit or a miss."""
    for process in processes(index_client()):
        if process.role != "metadata" or not process.detail:
            continue
        counters = process.detail["search_cache"]
        hits, misses = counters["hit_chunks"], counters["miss_chunks"]
        tags = {"node": process.node, "pid": str(process.pid)}
        yield _metric("meta_indexer.search_cache_hit_count", hits, **tags)
        yield _metric("meta_indexer.search_cache_miss_count", misses, **tags)
        yield _metric("meta_indexer.search_cache_hit_ratio", hits / (hits + misses or 1), **tags)
        yield _metric("meta_indexer.search_cache_invalidation_count", counters["invalidated_chunks"], **tags)
        yield _metric("meta_indexer.search_cache_bytes", counters["bytes"], **tags)


RPCS = (Rpc("GetMetrics", get_metrics, Role.VIEWER, is_gated=False),)
