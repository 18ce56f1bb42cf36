"""Totals of whole groups; a group may have thousands of instances, so only what is shown is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import redis

from kvcm_platform.index import keyspace
from kvcm_platform.index.stats import Traffic

GROUP_TRAFFIC = ("requested_blocks", "hit_blocks", "write_refused", "quota_refused")


def traffic_by_group(client: redis.Redis, ids: Mapping[int, Sequence[str]]) -> dict[int, Traffic]:
    """GROUP_TRAFFIC of each group, given its instances' ids; one call."""
    names = [
        f"{instance_id}|{name}" for group in ids.values() for instance_id in group for name in GROUP_TRAFFIC
    ]
    values = [int(value or 0) for value in client.hmget(keyspace.COUNTERS, names)] if names else []
    totals, at = {}, 0
    for key, group in ids.items():
        part = values[at : at + len(GROUP_TRAFFIC) * len(group)]
        at += len(part)
        sums = (sum(part[n :: len(GROUP_TRAFFIC)]) for n in range(len(GROUP_TRAFFIC)))
        totals[key] = Traffic(**dict(zip(GROUP_TRAFFIC, sums, strict=True)))
    return totals
