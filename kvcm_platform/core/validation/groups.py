"""Rules for instance groups."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from kvcm_platform.core.errors import invalid
from kvcm_platform.core.registry import (
    FairnessLimits,
    MetaIndexerSettings,
    MigrationPolicy,
    Quota,
    ReclaimSettings,
)
from kvcm_platform.core.types import Placement, PreferStrategy, ReclaimPolicy

from .values import INT32, INT64, check_object_name, number, text

_INDEX_TYPES = frozenset({"local", "redis", "rocksdb"})
MAX_CANDIDATES = 256
MAX_HITS = 1_000_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What operators set on an instance group."""

    storage_candidates: tuple[str, ...]
    quota: Quota
    prefer_strategy: PreferStrategy = PreferStrategy.PREFER_3FS
    reclaim: ReclaimSettings = field(default_factory=ReclaimSettings)
    meta_indexer: MetaIndexerSettings = field(default_factory=MetaIndexerSettings)
    max_instance_count: int = 0
    global_quota_group_name: str = "default_quota_group"
    user_data: str = ""
    limits: FairnessLimits = field(default_factory=FairnessLimits)
    migration: MigrationPolicy | None = None
    placement: Placement = Placement.ORDERED


def check_group(settings: GroupSettings) -> GroupSettings:
    """The accepted form of a group's settings: each candidate once, in the order given."""
    if not settings.storage_candidates:
        raise invalid("storage_candidates", "must name at least one storage")
    if len(settings.storage_candidates) > MAX_CANDIDATES:
        raise invalid("storage_candidates", f"must name at most {MAX_CANDIDATES} storages")
    for name in settings.storage_candidates:
        check_object_name(name, field="storage_candidates")
    if settings.prefer_strategy is PreferStrategy.UNSPECIFIED:
        raise invalid("prefer_strategy", "is required")
    text("global_quota_group_name", settings.global_quota_group_name, is_required=True, at_most=256)
    text("user_data", settings.user_data, is_required=False, at_most=65_536)
    number("max_instance_count", settings.max_instance_count, 0, INT64)
    number("quota.capacity_bytes", settings.quota.capacity_bytes, 0, INT64)
    for kind, capacity in settings.quota.per_type.items():
        number(f"quota.per_type.{kind}", capacity, 0, INT64)
    _check_reclaim(settings.reclaim)
    _check_limits(settings.limits)
    if settings.migration is not None:
        _check_migration(settings.migration)
    meta_indexer = check_meta_indexer(settings.meta_indexer)
    candidates = tuple(dict.fromkeys(settings.storage_candidates))
    return replace(settings, storage_candidates=candidates, meta_indexer=meta_indexer)


def _check_reclaim(reclaim: ReclaimSettings) -> None:
    high, low = reclaim.used_ratio, reclaim.low_watermark_ratio
    # Above 1 is legal: it means "never by this trigger".
    if not math.isfinite(high) or high < 0:
        raise invalid("reclaim.used_ratio", f"must be 0 or more, not {high}")
    if low is not None and (not math.isfinite(low) or low < 0):
        raise invalid("reclaim.low_watermark_ratio", f"must be 0 or more, not {low}")
    if low is not None and high > 0 and low >= high:
        raise invalid("reclaim.low_watermark_ratio", "must be below reclaim.used_ratio")
    number("reclaim.used_bytes", reclaim.used_bytes, 0, INT64)
    number("reclaim.step_percentage", reclaim.step_percentage, 0, 100)
    seconds = ("trigger_period_seconds", "grace_seconds", "ttl_seconds")
    for name in (*seconds, "step_size", "delay_before_delete_ms"):
        number(f"reclaim.{name}", getattr(reclaim, name), 0, INT32)
    text("reclaim.storage_unique_name", reclaim.storage_unique_name, is_required=False, at_most=128)


def _check_limits(limits: FairnessLimits) -> None:
    number("limits.calls_per_second", limits.calls_per_second, 0, INT32)
    number("limits.blocks_per_second", limits.blocks_per_second, 0, INT32)
    if not 0 <= limits.write_session_ratio <= 1:
        raise invalid("limits.write_session_ratio", "must be between 0 and 1")


def _check_migration(policy: MigrationPolicy) -> None:
    check_way("migration", policy.source, policy.target)
    high, low = policy.trigger_ratio, policy.low_ratio
    if not 0 < high <= 1:
        raise invalid("migration.trigger_ratio", f"must be above 0 and at most 1, not {high}")
    if not 0 <= low < high:
        raise invalid("migration.low_ratio", f"must be 0 or more and below the trigger_ratio, not {low}")
    number("migration.promote_after_hits", policy.promote_after_hits, 0, MAX_HITS)
    number("migration.max_bytes_per_second", policy.max_bytes_per_second, 0, INT64)


def check_way(field_name: str, source: str, target: str) -> None:
    """Two storages, by name, between which blocks are to move."""
    prefix = f"{field_name}." if field_name else ""
    for name, value in (("source", source), ("target", target)):
        text(f"{prefix}{name}", value, is_required=True, at_most=128)
        check_object_name(value, field=f"{prefix}{name}")
    if source == target:
        raise invalid(f"{prefix}target", "must be another storage than the source")


def check_meta_indexer(indexer: MetaIndexerSettings) -> MetaIndexerSettings:
    """The accepted form of the settings of a group's index, and of any MetaIndex."""
    number("meta_indexer.max_key_count", indexer.max_key_count, 1, INT64)
    number("meta_indexer.batch_key_size", indexer.batch_key_size, 0, INT64)
    # 0 is what the protocol sends for "unset".
    shards = number("meta_indexer.mutex_shard_num", indexer.mutex_shard_num, 0, 1 << 20) or 16
    if shards & (shards - 1):
        raise invalid("meta_indexer.mutex_shard_num", f"must be a power of two, not {shards}")
    if indexer.storage_type not in _INDEX_TYPES:
        raise invalid("meta_indexer.storage_type", f"must be one of {', '.join(sorted(_INDEX_TYPES))}")
    policy = indexer.cache_policy
    if policy.type.lower() != "lru":
        raise invalid("meta_indexer.cache_policy.type", "must be lru")
    number("meta_indexer.cache_policy.capacity_mb", policy.capacity_mb, 0, INT64)
    number("meta_indexer.cache_policy.shard_bits", policy.shard_bits, -1, 30)
    if not 0 <= policy.high_pri_pool_ratio <= 1:
        raise invalid("meta_indexer.cache_policy.high_pri_pool_ratio", "must be between 0 and 1")
    return replace(indexer, mutex_shard_num=shards)


def group_warnings(settings: GroupSettings, known_storages: Collection[str]) -> list[str]:
    """What is accepted but probably not meant (WIRE.md A, leniency); one sentence each."""
    found = [
        f"storage_candidates: storage {name} does not exist yet"
        for name in settings.storage_candidates
        if name not in known_storages
    ]
    preferred = settings.reclaim.storage_unique_name
    if preferred and preferred not in known_storages:
        found.append(f"reclaim.storage_unique_name: storage {preferred} does not exist")
    if settings.migration is not None:
        found += [
            f"migration.{role}: storage {name} does not exist yet"
            for role, name in (("source", settings.migration.source), ("target", settings.migration.target))
            if name not in known_storages
        ]
    capacity = settings.quota.capacity_bytes
    if settings.reclaim.ttl_seconds and settings.reclaim.policy is not ReclaimPolicy.TTL:
        found.append("reclaim.ttl_seconds: counts for the policy ttl alone")
    if settings.reclaim.used_bytes and settings.reclaim.used_ratio:
        found.append("reclaim.used_bytes: counts only where used_ratio is 0")
    elif settings.reclaim.used_bytes > capacity:
        found.append("reclaim.used_bytes: is above the quota, so it never triggers")
    found += [
        f"quota.per_type.{kind}: is above the quota of the group"
        for kind, limit in settings.quota.per_type.items()
        if limit > capacity
    ]
    return found
