"""Messages of AdminService as existing clients send them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvcm_platform.pb import admin_service_pb2 as pb


def nfs_config(root: Path | str, name: str = "nfs_a", **spec: Any) -> pb.StorageConfig:
    return pb.StorageConfig(global_unique_name=name, nfs=pb.NfsStorageSpec(root_path=str(root), **spec))


def group_message(name: str = "chat", **changes: Any) -> pb.InstanceGroup:
    message = pb.InstanceGroup(
        name=name,
        storage_candidates=["nfs_a"],
        global_quota_group_name="default_quota_group",
        max_instance_count=10,
        quota=pb.InstanceGroupQuota(
            capacity=1 << 30, quota_config=[pb.QuotaConfig(storage_type=pb.ST_NFS, capacity=1 << 29)]
        ),
        cache_config=pb.CacheConfig(
            reclaim_strategy=pb.CacheReclaimStrategy(
                storage_unique_name="nfs_a",
                reclaim_policy=pb.POLICY_LRU,
                trigger_strategy=pb.TriggerStrategy(used_percentage=0.8),
                delay_before_delete_ms=1000,
            ),
            data_storage_strategy=pb.CPS_PREFER_3FS,
            meta_indexer_config=pb.MetaIndexerConfig(
                max_key_count=1000,
                mutex_shard_num=16,
                batch_key_size=16,
                meta_storage_backend_config=pb.MetaStorageBackendConfig(storage_type="local"),
                meta_cache_policy_config=pb.MetaCachePolicyConfig(capacity=10000, type="LRU"),
            ),
        ),
        user_data="opaque",
        version=1,
    )
    message.MergeFrom(pb.InstanceGroup(**changes))
    return message


def register_request(instance_id: str = "model-a", group: str = "chat") -> pb.RegisterInstanceRequest:
    return pb.RegisterInstanceRequest(
        trace_id="t",
        instance_group=group,
        instance_id=instance_id,
        block_size=16,
        location_spec_infos=[pb.LocationSpecInfo(name="tp0", size=1024)],
        location_spec_groups=[pb.LocationSpecGroup(name="full", spec_names=["tp0"])],
        model_deployment=pb.ModelDeployment(model_name="llama", dtype="bf16", tp_size=1, user_data="u"),
    )
