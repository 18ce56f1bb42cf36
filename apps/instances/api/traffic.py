"""Totals of whole groups; a group may have thousands of instances, so only what is shown is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import redis

from kvcm_platform.index import keyspace
from kvcm_platform.index.stats import Traffic


def traffic_by_group(client: redis.Redis, ids: Mapping[int, Sequence[str]]) -> dict[int, Traffic]:
    """Requested and hit blocks of each group, given its instances' ids; one call."""
    names = [
        f"{instance_id}|{name}"
        for group in ids.values()
        for instance_id in group
        for name in ("requested_blocks", "hit_blocks")
    ]
    values = [int(value or 0) for value in client.hmget(keyspace.COUNTERS, names)] if names else []
    totals, at = {}, 0
    for key, group in ids.items():
        part = values[at : at + 2 * len(group)]
        at += len(part)
        totals[key] = Traffic(requested_blocks=sum(part[::2]), hit_blocks=sum(part[1::2]))
    return totals
