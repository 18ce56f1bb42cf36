"""Messages of AdminService to and from the platform's own values (WIRE.md B, C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.registry import (
    CachePolicy,
    GroupEntry,
    InstanceEntry,
    LocationSpecGroup,
    LocationSpecInfo,
    MetaIndexerSettings,
    Quota,
    ReclaimSettings,
    StorageEntry,
)
from kvcm_platform.core.types import (
    STORAGE_TYPE_BY_WIRE,
    WIRE_PREFER_STRATEGY,
    WIRE_RECLAIM_BUDGET,
    WIRE_RECLAIM_POLICY,
    WIRE_STORAGE_TYPE,
    PreferStrategy,
    ReclaimBudget,
    StorageType,
)
from kvcm_platform.core.validation.groups import GroupSettings
from kvcm_platform.core.validation.instances import Registration
from kvcm_platform.metadata_service import mapping as meta_mapping
from kvcm_platform.pb import admin_service_pb2 as pb

_SPEC_MEMBER: dict[StorageType, str] = {
    StorageType.NFS: "nfs",
    StorageType.HF3FS: "threefs",
    StorageType.VCNS_HF3FS: "vcnsthreefs",
    StorageType.MOONCAKE: "mooncake",
    StorageType.TAIR_MEMPOOL: "tair_mem_pool",
    StorageType.DUMMY: "dummy",
}
_TYPE_OF_MEMBER = {member: kind for kind, member in _SPEC_MEMBER.items()}
_STRATEGY = {
    number: strategy
    for strategy, number in WIRE_PREFER_STRATEGY.items()
    if number or strategy is PreferStrategy.UNSPECIFIED
}
_POLICY = {number: policy for policy, number in WIRE_RECLAIM_POLICY.items()}
_BUDGET = {number: budget for budget, number in WIRE_RECLAIM_BUDGET.items()}

_RECLAIM = "cache_config.reclaim_strategy"
_INDEXER = "cache_config.meta_indexer_config"
_POLICY_CONFIG = f"{_INDEXER}.meta_cache_policy_config"
STORAGE_FIELDS: Mapping[str, str] = {"name": "global_unique_name", "spec": "storage_spec"}
GROUP_FIELDS: Mapping[str, str] = {
    "quota.capacity_bytes": "quota.capacity",
    "prefer_strategy": "cache_config.data_storage_strategy",
    "reclaim.storage_unique_name": f"{_RECLAIM}.storage_unique_name",
    "reclaim.policy": f"{_RECLAIM}.reclaim_policy",
    "reclaim.used_ratio": f"{_RECLAIM}.trigger_strategy.used_percentage",
    "reclaim.used_bytes": f"{_RECLAIM}.trigger_strategy.used_size",
    "reclaim.trigger_period_seconds": f"{_RECLAIM}.trigger_period_seconds",
    "reclaim.step_size": f"{_RECLAIM}.reclaim_step_size",
    "reclaim.step_percentage": f"{_RECLAIM}.reclaim_step_percentage",
    "reclaim.delay_before_delete_ms": f"{_RECLAIM}.delay_before_delete_ms",
    "reclaim.budget": f"{_RECLAIM}.instance_reclaim_budget_policy",
    "meta_indexer.max_key_count": f"{_INDEXER}.max_key_count",
    "meta_indexer.mutex_shard_num": f"{_INDEXER}.mutex_shard_num",
    "meta_indexer.batch_key_size": f"{_INDEXER}.batch_key_size",
    "meta_indexer.storage_type": f"{_INDEXER}.meta_storage_backend_config.storage_type",
    "meta_indexer.cache_policy.type": f"{_POLICY_CONFIG}.type",
    "meta_indexer.cache_policy.capacity_mb": f"{_POLICY_CONFIG}.capacity",
    "meta_indexer.cache_policy.shard_bits": f"{_POLICY_CONFIG}.cache_shard_bits",
    "meta_indexer.cache_policy.high_pri_pool_ratio": f"{_POLICY_CONFIG}.high_pri_pool_ratio",
}
"""How the protocol spells the fields that `core.validation` names; all others are the same."""


def wire_message(error: DomainError, fields: Mapping[str, str]) -> str:
    """The sentence of an error with the field's name as the protocol spells it."""
    field = error.field or ""
    spelled = fields.get(field, field.removeprefix("spec."))
    if spelled != field and error.message.startswith(f"{field}:"):
        return spelled + error.message.removeprefix(field)
    return error.message


# Storages ------------------------------------------------------------------------------------


def storage_kind_and_spec(config: pb.StorageConfig) -> tuple[StorageType, dict[str, Any]]:
    """Type and spec of a storage. Raises INVALID_ARGUMENT without a spec, UNSUPPORTED for one not built."""
    member = config.WhichOneof("storage_spec")
    if member is None:
        raise invalid("spec", "is required")
    kind = _TYPE_OF_MEMBER.get(member)
    if kind is None or config.storage_type not in {pb.ST_UNSPECIFIED, WIRE_STORAGE_TYPE[kind]}:
        raise DomainError(Code.UNSUPPORTED, f"storage_spec: storages of kind {member} are not supported")
    spec = getattr(config, member)
    return kind, {field.name: getattr(spec, field.name) for field in spec.DESCRIPTOR.fields}


def storage_config(entry: StorageEntry) -> pb.StorageConfig:
    config = pb.StorageConfig(
        global_unique_name=entry.name,
        check_storage_available_when_open=entry.check_storage_available_when_open,
        storage_type=WIRE_STORAGE_TYPE[entry.type],
    )
    spec = getattr(config, _SPEC_MEMBER[entry.type])
    spec.SetInParent()
    for name in spec.DESCRIPTOR.fields_by_name:
        if name in entry.spec:
            setattr(spec, name, entry.spec[name])
    return config


# Instance groups -----------------------------------------------------------------------------


def group_settings(message: pb.InstanceGroup, base: GroupSettings) -> GroupSettings:
    """The settings that a message carries. What it cannot express (low mark, grace, …) stays as in `base`."""
    if not message.HasField("cache_config"):
        raise invalid("cache_config", "is required")
    cache = message.cache_config
    strategy = _STRATEGY.get(cache.data_storage_strategy)
    if strategy is PreferStrategy.UNSPECIFIED and not WIRE_PREFER_STRATEGY[base.prefer_strategy]:
        strategy = base.prefer_strategy
    if strategy is None:
        raise invalid("prefer_strategy", f"{cache.data_storage_strategy} is not a strategy of this version")
    return replace(
        base,
        storage_candidates=tuple(message.storage_candidates),
        quota=_quota(message.quota),
        prefer_strategy=strategy,
        reclaim=_reclaim(cache.reclaim_strategy, base.reclaim),
        meta_indexer=_meta_indexer(cache.meta_indexer_config),
        max_instance_count=message.max_instance_count,
        global_quota_group_name=message.global_quota_group_name,
        user_data=message.user_data,
    )


def _quota(message: pb.InstanceGroupQuota) -> Quota:
    per_type = {}
    for item in message.quota_config:
        kind = STORAGE_TYPE_BY_WIRE.get(item.storage_type)
        if kind is None:
            raise invalid("quota.quota_config", f"{item.storage_type} is not a storage type of this version")
        per_type[kind] = item.capacity
    return Quota(capacity_bytes=message.capacity, per_type=per_type)


def _reclaim(message: pb.CacheReclaimStrategy, base: ReclaimSettings) -> ReclaimSettings:
    policy = _POLICY.get(message.reclaim_policy)
    if policy is None:
        raise invalid("reclaim.policy", f"{message.reclaim_policy} is not a policy of this version")
    budget = _BUDGET.get(message.instance_reclaim_budget_policy)
    if budget is None:
        number = message.instance_reclaim_budget_policy
        raise invalid("reclaim.budget", f"{number} is not a budget policy of this version")
    used_ratio = message.trigger_strategy.used_percentage
    low = base.low_watermark_ratio
    return replace(
        base,
        storage_unique_name=message.storage_unique_name,
        policy=policy,
        used_ratio=used_ratio,
        used_bytes=message.trigger_strategy.used_size,
        # A low mark that no longer lies below the high one gives way to the default.
        low_watermark_ratio=None if low is not None and 0 < used_ratio <= low else low,
        trigger_period_seconds=message.trigger_period_seconds,
        step_size=message.reclaim_step_size,
        step_percentage=message.reclaim_step_percentage,
        delay_before_delete_ms=message.delay_before_delete_ms,
        # Its number is 0, which clients send as well that do not know the field.
        budget=base.budget if budget is ReclaimBudget.USAGE_PROPORTIONAL else budget,
    )


def _meta_indexer(message: pb.MetaIndexerConfig) -> MetaIndexerSettings:
    backend, policy = message.meta_storage_backend_config, message.meta_cache_policy_config
    return MetaIndexerSettings(
        max_key_count=message.max_key_count,
        mutex_shard_num=message.mutex_shard_num,
        batch_key_size=message.batch_key_size,
        storage_type=backend.storage_type,
        storage_uri=backend.storage_uri,
        cache_policy=CachePolicy(
            capacity_mb=policy.capacity,
            type=policy.type,
            shard_bits=policy.cache_shard_bits,
            high_pri_pool_ratio=policy.high_pri_pool_ratio,
        ),
    )


def group_message(entry: GroupEntry) -> pb.InstanceGroup:
    reclaim, indexer = entry.reclaim, entry.meta_indexer
    return pb.InstanceGroup(
        name=entry.name,
        storage_candidates=entry.storage_candidates,
        global_quota_group_name=entry.global_quota_group_name,
        max_instance_count=entry.max_instance_count,
        quota=pb.InstanceGroupQuota(
            capacity=entry.quota.capacity_bytes,
            quota_config=[
                pb.QuotaConfig(storage_type=WIRE_STORAGE_TYPE[kind], capacity=size)
                for kind, size in entry.quota.per_type.items()
            ],
        ),
        cache_config=pb.CacheConfig(
            reclaim_strategy=pb.CacheReclaimStrategy(
                storage_unique_name=reclaim.storage_unique_name,
                reclaim_policy=WIRE_RECLAIM_POLICY[reclaim.policy],
                trigger_strategy=pb.TriggerStrategy(
                    used_size=reclaim.used_bytes, used_percentage=reclaim.used_ratio
                ),
                trigger_period_seconds=reclaim.trigger_period_seconds,
                reclaim_step_size=reclaim.step_size,
                reclaim_step_percentage=reclaim.step_percentage,
                delay_before_delete_ms=reclaim.delay_before_delete_ms,
                instance_reclaim_budget_policy=WIRE_RECLAIM_BUDGET[reclaim.budget],
            ),
            data_storage_strategy=WIRE_PREFER_STRATEGY[entry.prefer_strategy],
            meta_indexer_config=pb.MetaIndexerConfig(
                max_key_count=indexer.max_key_count,
                mutex_shard_num=indexer.mutex_shard_num,
                batch_key_size=indexer.batch_key_size,
                meta_storage_backend_config=pb.MetaStorageBackendConfig(
                    storage_type=indexer.storage_type, storage_uri=indexer.storage_uri
                ),
                meta_cache_policy_config=pb.MetaCachePolicyConfig(
                    capacity=indexer.cache_policy.capacity_mb,
                    type=indexer.cache_policy.type,
                    cache_shard_bits=indexer.cache_policy.shard_bits,
                    high_pri_pool_ratio=indexer.cache_policy.high_pri_pool_ratio,
                ),
            ),
        ),
        user_data=entry.user_data,
        version=entry.version,
    )


# Instances -----------------------------------------------------------------------------------


def registration(message: pb.RegisterInstanceRequest) -> Registration:
    if not message.HasField("model_deployment"):
        raise invalid("model_deployment", "is required")
    return Registration(
        instance_group=message.instance_group,
        instance_id=message.instance_id,
        block_size=message.block_size,
        location_spec_infos=tuple(LocationSpecInfo(s.name, s.size) for s in message.location_spec_infos),
        location_spec_groups=tuple(
            LocationSpecGroup(group.name, tuple(group.spec_names)) for group in message.location_spec_groups
        ),
        model_deployment=meta_mapping.deployment(message.model_deployment),
        default_query_type=message.default_query_type,
    )


def instance_info(entry: InstanceEntry, quota_group_name: str) -> pb.InstanceInfo:
    # The message is the same on both services, declared twice: its bytes are too.
    same = meta_mapping.instance_info(entry, quota_group_name)
    return pb.InstanceInfo.FromString(same.SerializeToString())
