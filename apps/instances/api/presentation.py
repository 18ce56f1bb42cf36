"""Puts together what pages of groups and instances show: rows, and figures from the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import redis
import structlog

from apps.common.redis_client import figures_client
from apps.instances.api.traffic import GROUP_TRAFFIC, traffic_by_group
from apps.instances.models import Instance, InstanceGroup
from apps.instances.selectors import GroupDetail, group_details, instance_ids_by_group
from kvcm_platform.core.registry import MigrationPolicy
from kvcm_platform.index.stats import (
    AdmissionTotals,
    GroupUsage,
    InstanceUsage,
    Traffic,
    admissions,
    counters,
    group_usages,
    instance_usages,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")


def _from_index(read: Callable[[redis.Redis], T]) -> T | None:
    """What the index says; None, shown as null, while it does not answer."""
    try:
        return read(figures_client())
    except redis.RedisError as error:
        log.warning("figures are not shown: the index does not answer", error=str(error))
        return None


def groups_shown(rows: Sequence[InstanceGroup]) -> list[dict[str, Any]]:
    """The REST form of a page of groups, rows of `selectors.group_list`."""
    ids = instance_ids_by_group(rows)

    def read(
        client: redis.Redis,
    ) -> tuple[dict[int, GroupUsage], dict[int, Traffic], dict[str, AdmissionTotals]]:
        return (
            group_usages(client, [row.number for row in rows]),
            traffic_by_group(client, ids),
            admissions(client, [row.name for row in rows]),
        )

    figures = _from_index(read)
    shown = []
    for detail in group_details(rows):
        usage = traffic = admission = None
        if figures is not None:
            usage = asdict(figures[0][detail.row.number])
            traffic = _traffic(figures[1][detail.row.pk], *GROUP_TRAFFIC)
            admission = asdict(figures[2][detail.row.name])
        shown.append(_group(detail, usage, traffic, admission))
    return shown


def _group(
    detail: GroupDetail,
    usage: dict[str, Any] | None,
    traffic: dict[str, Any] | None,
    admission: dict[str, Any] | None,
) -> dict[str, Any]:
    row = detail.row
    return {
        **asdict(detail.settings),
        "migration": migration_shown(detail.settings.migration),
        "name": row.name,
        "version": row.version,
        "instance_count": row.instance_count,
        "usage": usage,
        "traffic": traffic,
        "admission": admission,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def migration_shown(policy: MigrationPolicy | None) -> dict[str, Any] | None:
    """The REST form of a group's migration policy."""
    if policy is None:
        return None
    shown = asdict(policy)
    shown["enabled"] = shown.pop("is_enabled")
    return shown


def _traffic(traffic: Traffic, *names: str) -> dict[str, Any]:
    return {**{name: getattr(traffic, name) for name in names}, "hit_rate": traffic.hit_rate}


def instances_shown(rows: Sequence[Instance]) -> list[dict[str, Any]]:
    """The REST form of a page of instances, rows of `selectors.instance_list`."""
    entries = [row.entry() for row in rows]

    def read(client: redis.Redis) -> tuple[dict[str, InstanceUsage], dict[str, Traffic]]:
        return (
            instance_usages(client, entries),
            counters(client, [entry.instance_id for entry in entries]),
        )

    figures = _from_index(read)
    if figures is None:
        return [_instance(row, None, None) for row in rows]
    return [_instance(row, figures[0][row.instance_id], figures[1][row.instance_id]) for row in rows]


def _instance(row: Instance, usage: InstanceUsage | None, traffic: Traffic | None) -> dict[str, Any]:
    parts = (
        *("requests", "requested_blocks", "hit_blocks", "written_blocks"),
        *("write_refused", "quota_refused"),
    )
    return {
        "instance_id": row.instance_id,
        "instance_group": row.group.name,
        "number": row.number,
        "block_size": row.block_size,
        "shards": row.shards,
        "default_query_type": row.default_query_type,
        "location_spec_infos": row.location_spec_infos,
        "location_spec_groups": row.location_spec_groups,
        "model_deployment": row.model_deployment,
        "usage": None if usage is None else asdict(usage),
        "open_write_sessions": None if usage is None else usage.open_write_sessions,
        "traffic": None if traffic is None else _traffic(traffic, *parts),
        "registered_at": row.registered_at,
        "last_seen_at": row.last_seen_at,
    }
