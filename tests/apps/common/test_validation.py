"""The rules of core.validation, as tables. Expected values are WIRE.md's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import (
    CachePolicy,
    LocationSpecGroup,
    LocationSpecInfo,
    MetaIndexerSettings,
    ModelDeployment,
    Quota,
    ReclaimSettings,
)
from kvcm_platform.core.types import PreferStrategy, StorageType
from kvcm_platform.core.validation.groups import check_group, group_warnings
from kvcm_platform.core.validation.instances import Registration, check_registration
from kvcm_platform.core.validation.storages import StorageSettings, check_storage_settings, check_storage_spec
from kvcm_platform.core.validation.values import check_object_name
from kvcm_platform.core.validation.versions import next_version, require_version
from tests.factories.objects import group_settings, registration

_3FS = {"mountpoint": "/mnt/3fs", "root_dir": "kvcm"}
_VCNS = {**_3FS, "remote_host": "h", "remote_port": 9, "meta_storage_uri": "x"}
_MOONCAKE = {
    "local_hostname": "localhost",
    "metadata_connstring": "http://localhost:8080/metadata",
    "protocol": "tcp",
    "master_service_entry": "localhost:50051",
}


def refused(work: Any, *arguments: Any, **named: Any) -> DomainError:
    with pytest.raises(DomainError) as caught:
        work(*arguments, **named)
    return caught.value


def sizes(*each: int) -> tuple[LocationSpecInfo, ...]:
    return tuple(LocationSpecInfo(f"tp{number}", size) for number, size in enumerate(each))


def spec_groups(count: int) -> tuple[LocationSpecGroup, ...]:
    return tuple(LocationSpecGroup(f"g{number}", ("tp0",)) for number in range(count))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a?b", "-a", ".a", "ä", "x" * 129, "a\n"])
def test_bad_object_name(name: str) -> None:
    assert refused(check_object_name, name).field == "name"


@pytest.mark.parametrize("name", ["nfs_01", "a", "A.b-c_9"])
def test_good_object_name(name: str) -> None:
    assert check_object_name(name) == name


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (StorageType.NFS, {}, "root_path"),
        (StorageType.NFS, {"root_path": "relative/"}, "root_path"),
        (StorageType.NFS, {"root_path": "/"}, "root_path"),
        (StorageType.NFS, {"root_path": "/a/../etc"}, "root_path"),
        (StorageType.NFS, {"root_path": "/a?b"}, "root_path"),
        (StorageType.NFS, {"root_path": 7}, "root_path"),
        (StorageType.NFS, {"root_path": "/a", "key_count_per_file": -1}, "key_count_per_file"),
        (StorageType.NFS, {"root_path": "/a", "key_count_per_file": True}, "key_count_per_file"),
        (StorageType.NFS, {"root_path": "/a", "key_count_per_file": 65_536}, "key_count_per_file"),
        (StorageType.NFS, {"root_path": "/a", "mountpoint": "/b"}, "mountpoint"),
        (StorageType.HF3FS, {"root_dir": "x"}, "mountpoint"),
        (StorageType.HF3FS, {"mountpoint": "/mnt"}, "root_dir"),
        (StorageType.HF3FS, {**_3FS, "root_dir": "../x"}, "root_dir"),
        (StorageType.HF3FS, {**_3FS, "touch_file_when_create": 1}, "touch_file_when_create"),
        (StorageType.VCNS_HF3FS, {**_VCNS, "remote_port": 0}, "remote_port"),
        (StorageType.VCNS_HF3FS, {**_VCNS, "remote_host": ""}, "remote_host"),
        (StorageType.VCNS_HF3FS, {**_VCNS, "meta_storage_uri": ""}, "meta_storage_uri"),
        (StorageType.MOONCAKE, {**_MOONCAKE, "local_hostname": ""}, "local_hostname"),
        (StorageType.MOONCAKE, {**_MOONCAKE, "protocol": "ib"}, "protocol"),
        (StorageType.MOONCAKE, {**_MOONCAKE, "protocol": "rdma"}, "rdma_device"),
        (StorageType.MOONCAKE, {**_MOONCAKE, "master_service_entry": ""}, "master_service_entry"),
        (StorageType.TAIR_MEMPOOL, {}, "domain"),
        (StorageType.TAIR_MEMPOOL, {"domain": "pool.local"}, "domain"),
        (StorageType.TAIR_MEMPOOL, {"domain": "a:1,b:65536"}, "domain"),
        (StorageType.TAIR_MEMPOOL, {"domain": "http://a:1"}, "domain"),
        (StorageType.TAIR_MEMPOOL, {"domain": " , "}, "domain"),
        (StorageType.TAIR_MEMPOOL, {"domain": "a:1", "media_type": 1}, "media_type"),
        (StorageType.TAIR_MEMPOOL, {"domain": "a:1", "timeout": -1}, "timeout"),
        (
            StorageType.TAIR_MEMPOOL,
            {"domain": "a:1", "service_discovery_url": "file:///etc"},
            "service_discovery_url",
        ),
    ],
)
def test_bad_spec(kind: StorageType, spec: dict[str, Any], field: str) -> None:
    error = refused(check_storage_spec, kind, spec)
    assert (error.code, error.field) == (Code.INVALID_ARGUMENT, f"spec.{field}")
    assert field in error.message


def test_spec_is_completed() -> None:
    spec = check_storage_spec(StorageType.NFS, {"root_path": "/data//kv", "key_count_per_file": 0})
    assert spec == {"root_path": "/data/kv/", "key_count_per_file": 1}
    assert check_storage_spec(StorageType.MOONCAKE, _MOONCAKE)["rdma_device"] == ""
    pool = check_storage_spec(StorageType.TAIR_MEMPOOL, {"domain": "[::1]:7800, b.local:7800"})
    assert (pool["media_type"], pool["timeout"], pool["service_discovery_url"]) == (0, 0, "")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"weight": -1}, "weight"),
        ({"capacity_bytes": -1}, "capacity_bytes"),
        ({"capacity_bytes": 1 << 63}, "capacity_bytes"),
        ({"high_watermark_ratio": 1.1}, "high_watermark_ratio"),
        ({"low_watermark_ratio": 0.0}, "low_watermark_ratio"),
        ({"high_watermark_ratio": 0.5, "low_watermark_ratio": 0.5}, "low_watermark_ratio"),
    ],
)
def test_bad_storage_settings(changes: dict[str, Any], field: str) -> None:
    assert refused(check_storage_settings, StorageSettings(**changes)).field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"storage_candidates": ()}, "storage_candidates"),
        ({"storage_candidates": ("a b",)}, "storage_candidates"),
        ({"prefer_strategy": PreferStrategy.UNSPECIFIED}, "prefer_strategy"),
        ({"global_quota_group_name": ""}, "global_quota_group_name"),
        ({"max_instance_count": -1}, "max_instance_count"),
        ({"quota": Quota(-1)}, "quota.capacity_bytes"),
        ({"quota": Quota(1, {StorageType.NFS: -1})}, "quota.per_type.nfs"),
        ({"reclaim": ReclaimSettings(used_ratio=-0.1)}, "reclaim.used_ratio"),
        ({"reclaim": ReclaimSettings(used_ratio=float("nan"))}, "reclaim.used_ratio"),
        ({"reclaim": ReclaimSettings(used_bytes=-1)}, "reclaim.used_bytes"),
        ({"reclaim": ReclaimSettings(low_watermark_ratio=0.8)}, "reclaim.low_watermark_ratio"),
        ({"reclaim": ReclaimSettings(step_percentage=101)}, "reclaim.step_percentage"),
        ({"reclaim": ReclaimSettings(step_size=-1)}, "reclaim.step_size"),
        ({"reclaim": ReclaimSettings(trigger_period_seconds=-1)}, "reclaim.trigger_period_seconds"),
        ({"reclaim": ReclaimSettings(delay_before_delete_ms=-1)}, "reclaim.delay_before_delete_ms"),
        ({"reclaim": ReclaimSettings(grace_seconds=-1)}, "reclaim.grace_seconds"),
        ({"reclaim": ReclaimSettings(ttl_seconds=-1)}, "reclaim.ttl_seconds"),
        ({"meta_indexer": MetaIndexerSettings(max_key_count=0)}, "meta_indexer.max_key_count"),
        ({"meta_indexer": MetaIndexerSettings(mutex_shard_num=3)}, "meta_indexer.mutex_shard_num"),
        ({"meta_indexer": MetaIndexerSettings(batch_key_size=-1)}, "meta_indexer.batch_key_size"),
        ({"meta_indexer": MetaIndexerSettings(storage_type="")}, "meta_indexer.storage_type"),
        (
            {"meta_indexer": MetaIndexerSettings(cache_policy=CachePolicy(type=""))},
            "meta_indexer.cache_policy.type",
        ),
    ],
)
def test_bad_group(changes: dict[str, Any], field: str) -> None:
    error = refused(check_group, group_settings(**changes))
    assert (error.code, error.field) == (Code.INVALID_ARGUMENT, field)


def test_group_leniency() -> None:
    """WIRE.md A: accepted, with a warning where it is probably not meant."""
    settings = check_group(
        group_settings(
            storage_candidates=("later", "nfs_a", "later"),
            quota=Quota(100, {StorageType.NFS: 200}),
            reclaim=ReclaimSettings(used_ratio=3.2, used_bytes=500, storage_unique_name="gone"),
            meta_indexer=MetaIndexerSettings(mutex_shard_num=0, cache_policy=CachePolicy(1 << 40, "LRU")),
        )
    )
    assert settings.storage_candidates == ("later", "nfs_a")
    assert settings.meta_indexer.mutex_shard_num == 16
    warned = [text.partition(":")[0] for text in group_warnings(settings, {"nfs_a"})]
    assert warned == [
        "storage_candidates",
        "reclaim.storage_unique_name",
        "reclaim.used_bytes",
        "quota.per_type.nfs",
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"instance_group": ""}, "instance_group"),
        ({"instance_id": ""}, "instance_id"),
        ({"instance_id": "../x"}, "instance_id"),
        ({"instance_id": "a?b"}, "instance_id"),
        ({"instance_id": "a&size=1"}, "instance_id"),
        ({"instance_id": "a/../../b"}, "instance_id"),
        ({"instance_id": "/a"}, "instance_id"),
        ({"instance_id": "a\x85b"}, "instance_id"),
        ({"instance_id": "a\u2028b"}, "instance_id"),
        ({"instance_id": "a\ud800"}, "instance_id"),
        ({"instance_id": "x" * 256}, "instance_id"),
        ({"instance_id": "ä" * 128}, "instance_id"),
        ({"block_size": 0}, "block_size"),
        ({"block_size": -4}, "block_size"),
        ({"model_deployment": ModelDeployment("", "bf16")}, "model_deployment.model_name"),
        ({"model_deployment": ModelDeployment("m", "")}, "model_deployment.dtype"),
        ({"location_spec_infos": ()}, "location_spec_infos"),
        ({"location_spec_infos": (LocationSpecInfo("", 1),)}, "location_spec_infos.name"),
        ({"location_spec_infos": (LocationSpecInfo("a/b", 1),)}, "location_spec_infos.name"),
        ({"location_spec_infos": (LocationSpecInfo("..", 1),)}, "location_spec_infos.name"),
        ({"location_spec_infos": (LocationSpecInfo("a&b", 1),)}, "location_spec_infos.name"),
        ({"location_spec_infos": (LocationSpecInfo("tp0", 0),)}, "location_spec_infos.size"),
        ({"location_spec_infos": (LocationSpecInfo("tp0", 1 << 48),)}, "location_spec_infos.size"),
        ({"location_spec_infos": sizes(1 << 47, 1 << 47)}, "location_spec_infos.size"),
        ({"location_spec_infos": (LocationSpecInfo("tp0", 1),) * 2}, "location_spec_infos"),
        ({"location_spec_groups": (LocationSpecGroup("g", ("tp9",)),)}, "location_spec_groups"),
        ({"location_spec_groups": (LocationSpecGroup("", ("tp0",)),)}, "location_spec_groups"),
        ({"location_spec_groups": (LocationSpecGroup("g", ()),)}, "location_spec_groups"),
        ({"location_spec_groups": (LocationSpecGroup("g", ("tp0", "tp0")),)}, "location_spec_groups"),
        ({"location_spec_groups": spec_groups(128)}, "location_spec_groups"),
        ({"default_query_type": 9}, "default_query_type"),
    ],
)
def test_bad_registration(changes: dict[str, Any], field: str) -> None:
    error = refused(check_registration, registration(**changes))
    assert (error.code, error.field) == (Code.INVALID_ARGUMENT, field)


@pytest.mark.parametrize(
    "accepted",
    [
        registration("org/model:tp2"),
        registration("Модель=7|a+b"),
        registration(location_spec_groups=spec_groups(127)),
        registration(location_spec_infos=sizes((1 << 47) - 1, 1 << 47)),
    ],
)
def test_good_registration(accepted: Registration) -> None:
    assert check_registration(accepted) == accepted


def test_most_keys_a_file() -> None:
    spec = check_storage_spec(StorageType.NFS, {"root_path": "/a", "key_count_per_file": 65_535})
    assert spec["key_count_per_file"] == 65_535


def test_versions() -> None:
    with pytest.raises(DomainError):
        next_version(stored=1, given=(1 << 63) - 1)
    assert next_version(stored=next_version(stored=1, given=1 << 62), given=None) == (1 << 62) + 1
    require_version(stored=3, given=None)
    require_version(stored=3, given=3)
    assert refused(require_version, stored=3, given=2).code is Code.CONFLICT
    assert next_version(stored=3, given=None) == 4
    assert next_version(stored=3, given=9) == 9
    assert refused(next_version, stored=3, given=3).field == "version"


def test_settings_given_back_unchanged() -> None:
    settings = group_settings()
    assert check_group(settings) == replace(settings)
