"""Turns what a client sent into settings of a group: what is absent stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvcm_platform.core.errors import invalid
from kvcm_platform.core.registry import MetaIndexerSettings, MigrationPolicy, Quota, ReclaimSettings
from kvcm_platform.core.types import (
    Placement,
    PreferStrategy,
    ReclaimBudget,
    ReclaimPolicy,
    Retention,
    StorageType,
)
from kvcm_platform.core.validation.groups import GroupSettings

BLANK = GroupSettings(storage_candidates=(), quota=Quota(capacity_bytes=0))
"""The defaults that a new group starts from."""


def changed(settings: GroupSettings, data: Mapping[str, Any]) -> GroupSettings:
    """`settings` with the members of `data` (a validated `GroupChange` or `GroupInput`)."""
    plain = ("max_instance_count", "global_quota_group_name", "user_data")
    values: dict[str, Any] = {name: data[name] for name in plain if name in data}
    if "storage_candidates" in data:
        values["storage_candidates"] = tuple(data["storage_candidates"])
    if "prefer_strategy" in data:
        values["prefer_strategy"] = PreferStrategy(data["prefer_strategy"])
    if "placement" in data:
        values["placement"] = Placement(data["placement"])
    if "quota" in data:
        values["quota"] = _quota(settings.quota, data["quota"])
    if "reclaim" in data:
        values["reclaim"] = _reclaim(settings.reclaim, data["reclaim"])
    if "meta_indexer" in data:
        values["meta_indexer"] = _meta_indexer(settings.meta_indexer, data["meta_indexer"])
    if "limits" in data:
        # null says what 0 says: no limit.
        limits = {name: value or 0 for name, value in data["limits"].items()}
        values["limits"] = replace(settings.limits, **limits)
    if "migration" in data:
        values["migration"] = _migration(settings.migration, data["migration"])
    return replace(settings, **values)


def _migration(policy: MigrationPolicy | None, data: Mapping[str, Any] | None) -> MigrationPolicy | None:
    """null takes the policy away."""
    if data is None:
        return None
    values = dict(data)
    if "enabled" in values:
        values["is_enabled"] = values.pop("enabled")
    if "retention" in values:
        values["retention"] = Retention(values["retention"])
    return replace(policy or MigrationPolicy(source="", target=""), **values)


def _quota(quota: Quota, data: Mapping[str, Any]) -> Quota:
    values = dict(data)
    if "per_type" in values:
        values["per_type"] = {_storage_type(name): size for name, size in values["per_type"].items()}
    return replace(quota, **values)


def _storage_type(name: str) -> StorageType:
    try:
        return StorageType(name)
    except ValueError as error:
        raise invalid(f"quota.per_type.{name}", "is not a storage type") from error


def _reclaim(reclaim: ReclaimSettings, data: Mapping[str, Any]) -> ReclaimSettings:
    values = dict(data)
    if "policy" in values:
        values["policy"] = ReclaimPolicy(values["policy"])
    if "budget" in values:
        values["budget"] = ReclaimBudget(values["budget"])
    return replace(reclaim, **values)


def _meta_indexer(indexer: MetaIndexerSettings, data: Mapping[str, Any]) -> MetaIndexerSettings:
    values = dict(data)
    if "cache_policy" in values:
        values["cache_policy"] = replace(indexer.cache_policy, **values["cache_policy"])
    return replace(indexer, **values)
