"""The online estimate, over the platform's own package."""

from __future__ import annotations

from apps.common.actor import Role
from apps.common.redis_client import index_client
from apps.control.calls.call import OPTIMIZER, Call, Rpc
from apps.instances.selectors import group_meant
from apps.optimizer_reports.selectors.estimates import estimate_get
from kvcm_platform.pb import kvcm_v1_pb2 as pb

_FIELDS = {"name": "instance_group"}


def trace_query(call: Call) -> pb.TraceQueryResponse:
    request = call.request
    group = group_meant(acting=call.acting, group=request.instance_group, instance_id=request.instance_id)
    row = estimate_get(client=index_client(), instance_group=group, instance_id=request.instance_id)
    capacities = [
        pb.CapacityEstimate(
            factor=point.factor,
            capacity_bytes=point.capacity_bytes,
            cache_hit_count=point.hit_blocks,
            total_blocks=row.asked_blocks,
            current_unique_keys=point.unique_blocks,
            hit_rate=point.hit_rate or 0.0,
        )
        for point in row.points
    ]
    present = next(one for one in capacities if one.factor == 1)
    return pb.TraceQueryResponse(
        cache_hit_count=present.cache_hit_count,
        total_blocks=present.total_blocks,
        current_unique_keys=present.current_unique_keys,
        capacities=capacities,
        real_hit_count=row.real_hit_blocks,
        window_seconds=row.window_seconds,
        at_ms=round(row.at.timestamp() * 1000),
        since_ms=round(row.since.timestamp() * 1000),
        has_seen_all=row.has_seen_all,
    )


RPCS = (Rpc("TraceQuery", trace_query, Role.VIEWER, fields=_FIELDS, service=OPTIMIZER),)
