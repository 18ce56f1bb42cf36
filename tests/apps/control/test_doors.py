"""The same bad value gives the same code and field through REST and through gRPC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.common.actor import Role
from apps.control import mapping
from kvcm_platform.core.errors import CODES, Code
from kvcm_platform.pb import admin_service_pb2 as pb
from tests.apps.conftest import Api
from tests.apps.control.conftest import Control
from tests.factories.messages import group_message, nfs_config
from tests.factories.objects import make_group

Break = Callable[[dict[str, Any], Any], None]


def _reclaim(message: pb.InstanceGroup) -> pb.CacheReclaimStrategy:
    return message.cache_config.reclaim_strategy


def _indexer(message: pb.InstanceGroup) -> pb.MetaIndexerConfig:
    return message.cache_config.meta_indexer_config


def rest_group() -> dict[str, Any]:
    return {
        "name": "chat",
        "storage_candidates": ["nfs_a"],
        "prefer_strategy": "prefer_3fs",
        "quota": {"capacity_bytes": 1000, "per_type": {"nfs": 500}},
        "reclaim": {},
        "meta_indexer": {"cache_policy": {}},
    }


GROUP_CASES: dict[str, Break] = {
    "name": lambda rest, wire: (rest.update(name="a/b"), setattr(wire, "name", "a/b")),
    "storage_candidates": lambda rest, wire: (
        rest.update(storage_candidates=[]),
        wire.ClearField("storage_candidates"),
    ),
    "prefer_strategy": lambda rest, wire: (
        rest.update(prefer_strategy="unspecified"),
        setattr(wire.cache_config, "data_storage_strategy", 0),
    ),
    "max_instance_count": lambda rest, wire: (
        rest.update(max_instance_count=-1),
        setattr(wire, "max_instance_count", -1),
    ),
    "global_quota_group_name": lambda rest, wire: (
        rest.update(global_quota_group_name=""),
        wire.ClearField("global_quota_group_name"),
    ),
    "quota.capacity_bytes": lambda rest, wire: (
        rest["quota"].update(capacity_bytes=-5),
        setattr(wire.quota, "capacity", -5),
    ),
    "quota.per_type.nfs": lambda rest, wire: (
        rest["quota"].update(per_type={"nfs": -5}),
        setattr(wire.quota.quota_config[0], "capacity", -5),
    ),
    "reclaim.used_ratio": lambda rest, wire: (
        rest["reclaim"].update(used_ratio=-1.0),
        setattr(_reclaim(wire).trigger_strategy, "used_percentage", -1.0),
    ),
    "reclaim.step_percentage": lambda rest, wire: (
        rest["reclaim"].update(step_percentage=200),
        setattr(_reclaim(wire), "reclaim_step_percentage", 200),
    ),
    "reclaim.delay_before_delete_ms": lambda rest, wire: (
        rest["reclaim"].update(delay_before_delete_ms=-1),
        setattr(_reclaim(wire), "delay_before_delete_ms", -1),
    ),
    "meta_indexer.max_key_count": lambda rest, wire: (
        rest["meta_indexer"].update(max_key_count=0),
        setattr(_indexer(wire), "max_key_count", 0),
    ),
    "meta_indexer.mutex_shard_num": lambda rest, wire: (
        rest["meta_indexer"].update(mutex_shard_num=12),
        setattr(_indexer(wire), "mutex_shard_num", 12),
    ),
    "meta_indexer.storage_type": lambda rest, wire: (
        rest["meta_indexer"].update(storage_type="sqlite"),
        setattr(_indexer(wire).meta_storage_backend_config, "storage_type", "sqlite"),
    ),
    "meta_indexer.cache_policy.type": lambda rest, wire: (
        rest["meta_indexer"]["cache_policy"].update(type="fifo"),
        setattr(_indexer(wire).meta_cache_policy_config, "type", "fifo"),
    ),
}


def agree(control: Control, method: str, request: Any, answer: Any, code: Code, field: str) -> None:
    """The REST answer and the gRPC answer to `request` say the same."""
    assert (answer.status_code, answer.data["code"], answer.data["field"]) == (CODES[code].rest, code, field)
    status = control.call(method, request).header.status
    assert status.code == CODES[code].wire
    fields = mapping.STORAGE_FIELDS if "Storage" in method else mapping.GROUP_FIELDS
    assert status.message.startswith(fields.get(field, field.removeprefix("spec.")))


@pytest.mark.parametrize("field", GROUP_CASES)
def test_groups(control: Control, api: Api, field: str) -> None:
    rest, wire = rest_group(), group_message()
    GROUP_CASES[field](rest, wire)
    answer = api(Role.OPERATOR).post("/api/v1/instance-groups/", rest)
    request = pb.CreateInstanceGroupRequest(instance_group=wire)
    agree(control, "CreateInstanceGroup", request, answer, Code.INVALID_ARGUMENT, field)


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("bad name", {"root_path": "/tmp/x"}, "name"),
        ("nfs_a", {"root_path": ""}, "spec.root_path"),
        ("nfs_a", {"root_path": "tmp"}, "spec.root_path"),
        ("nfs_a", {"root_path": "/tmp/x", "key_count_per_file": -2}, "spec.key_count_per_file"),
    ],
)
def test_storages(control: Control, api: Api, name: str, spec: dict[str, Any], field: str) -> None:
    body = {"name": name, "type": "nfs", "spec": spec}
    answer = api(Role.OPERATOR).post("/api/v1/storages/", body)
    config = nfs_config(spec["root_path"], name, key_count_per_file=spec.get("key_count_per_file", 0))
    agree(control, "AddStorage", pb.AddStorageRequest(storage=config), answer, Code.INVALID_ARGUMENT, field)


def test_stale_version(control: Control, api: Api) -> None:
    make_group()
    answer = api(Role.OPERATOR).patch("/api/v1/instance-groups/chat/", {"version": 9, "user_data": "x"})
    request = pb.UpdateInstanceGroupRequest(instance_group=group_message(version=10), current_version=9)
    agree(control, "UpdateInstanceGroup", request, answer, Code.CONFLICT, "version")


def test_taken_name(control: Control, api: Api) -> None:
    make_group()
    answer = api(Role.OPERATOR).post("/api/v1/instance-groups/", rest_group())
    assert (answer.status_code, answer.data["code"]) == (409, "duplicate_entity")
    request = pb.CreateInstanceGroupRequest(instance_group=group_message())
    assert control.call("CreateInstanceGroup", request).header.status.code == pb.DUPLICATE_ENTITY
