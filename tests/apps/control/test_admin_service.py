"""AdminService over a real channel: storages, groups, instances, accounts (WIRE.md 1.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import redis

from apps.accounts.models import User
from apps.audit.models import AuditEntry
from apps.storages.services import storage_remove, storage_update
from kvcm_platform.core.registry import FairnessLimits, MigrationPolicy, StorageEntry
from kvcm_platform.core.types import ReclaimBudget, StorageType
from kvcm_platform.index import heartbeat, keyspace, leaving
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.chunks import CacheCounters
from kvcm_platform.pb import admin_service_pb2 as pb
from tests.apps.control.conftest import Control
from tests.apps.storages.looks import occupy
from tests.factories.actors import ADMIN, OPERATOR
from tests.factories.messages import group_message, nfs_config, register_request
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.mooncake import MooncakeMaster


def code(answer: Any) -> int:
    return int(answer.header.status.code)


def test_storage_from_add_to_remove(control: Control, index: redis.Redis, tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"
    answer = control.call("AddStorage", pb.AddStorageRequest(trace_id="t1", storage=nfs_config(root)))
    assert (code(answer), answer.header.status.message) == (pb.OK, "")
    assert answer.header.request_id.startswith("t1_")
    assert root.is_dir()
    entry = index_registry.read(index).storages["nfs_a"]
    assert replace(entry, free_bytes=None) == StorageEntry(
        name="nfs_a",
        number=1,
        type=StorageType.NFS,
        spec={"root_path": f"{root}/", "key_count_per_file": 1},
        version=1,
    )
    control.call("DisableStorage", pb.DisableStorageRequest(storage_unique_name="nfs_a"))
    assert not index_registry.read(index).storages["nfs_a"].is_enabled
    control.call("EnableStorage", pb.EnableStorageRequest(storage_unique_name="nfs_a"))
    assert index_registry.read(index).storages["nfs_a"].is_writable
    listed = control.call("ListStorage", pb.ListStorageRequest()).storage
    assert [(c.global_unique_name, c.nfs.root_path) for c in listed] == [("nfs_a", f"{root}/")]
    update = pb.UpdateStorageRequest(storage=nfs_config(root, key_count_per_file=8))
    assert code(control.call("UpdateStorage", update)) == pb.OK
    assert index_registry.read(index).storages["nfs_a"].spec["key_count_per_file"] == 8
    assert code(control.call("RemoveStorage", pb.RemoveStorageRequest(storage_unique_name="nfs_a"))) == pb.OK
    assert index_registry.read(index).storages == {}
    actions = list(
        AuditEntry.objects.filter(object_kind="storage").order_by("id").values_list("action", flat=True)
    )
    assert actions == ["storage.add", *["storage.update"] * 3, "storage.remove"]


def test_numbers_of_storages_are_never_given_twice(
    control: Control, index: redis.Redis, tmp_path: Path
) -> None:
    for number in (1, 2):
        control.call("AddStorage", pb.AddStorageRequest(storage=nfs_config(tmp_path / "a")))
        assert index_registry.read(index).storages["nfs_a"].number == number
        control.call("RemoveStorage", pb.RemoveStorageRequest(storage_unique_name="nfs_a"))


@pytest.mark.parametrize(
    ("storage", "expected", "word"),
    [
        (None, pb.INVALID_ARGUMENT, "storage"),
        (pb.StorageConfig(global_unique_name="x"), pb.INVALID_ARGUMENT, "storage_spec"),
        (nfs_config("/tmp/x", name=""), pb.INVALID_ARGUMENT, "global_unique_name"),
        (nfs_config(""), pb.INVALID_ARGUMENT, "root_path"),
        (
            pb.StorageConfig(global_unique_name="x", threefs=pb.ThreeFSStorageSpec(mountpoint="/mnt")),
            pb.INVALID_ARGUMENT,
            "root_dir",
        ),
        (
            pb.StorageConfig(global_unique_name="x", tair_mem_pool=pb.TairMemPoolStorageSpec(timeout=5)),
            pb.INVALID_ARGUMENT,
            "domain",
        ),
        (pb.StorageConfig(global_unique_name="x", local=pb.LocalStorageSpec()), pb.UNSUPPORTED, "local"),
    ],
)
def test_bad_storage(control: Control, storage: pb.StorageConfig | None, expected: int, word: str) -> None:
    answer = control.call("AddStorage", pb.AddStorageRequest(storage=storage))
    assert code(answer) == expected
    assert word in answer.header.status.message


def test_directories_of_every_type(control: Control, index: redis.Redis, tmp_path: Path) -> None:
    below = {"mountpoint": str(tmp_path), "key_count_per_file": 4}
    remote = {"remote_host": "127.0.0.1", "remote_port": 1, "meta_storage_uri": "redis://127.0.0.1/0"}
    configs = [
        pb.StorageConfig(
            global_unique_name="threefs",
            threefs=pb.ThreeFSStorageSpec(**below, root_dir="a", touch_file_when_create=True),
        ),
        pb.StorageConfig(
            global_unique_name="vcns",
            vcnsthreefs=pb.VcnsThreeFSStorageSpec(**below, root_dir="b", **remote),
        ),
        pb.StorageConfig(
            global_unique_name="dummy",
            dummy=pb.DummyStorageSpec(root_path=f"{tmp_path}/c/", key_count_per_file=2),
        ),
    ]
    for config in configs:
        assert code(control.call("AddStorage", pb.AddStorageRequest(storage=config))) == pb.OK
    listed = {
        one.global_unique_name: one for one in control.call("ListStorage", pb.ListStorageRequest()).storage
    }
    assert listed["threefs"].threefs == configs[0].threefs
    assert listed["vcns"].vcnsthreefs == configs[1].vcnsthreefs
    assert (listed["dummy"].dummy, listed["dummy"].storage_type) == (configs[2].dummy, pb.ST_DUMMY)
    published = index_registry.read(index).storages
    assert {name: entry.is_available for name, entry in published.items()} == {
        **{"threefs": True, "dummy": True},
        # Its directory is there, the service behind it is not.
        "vcns": False,
    }
    assert "127.0.0.1:1 does not take a connection" in published["vcns"].unavailable_reason


def test_members_beyond_the_protocol_outlive_it(
    control: Control, index: redis.Redis, mooncake: MooncakeMaster
) -> None:
    said = {name: value for name, value in mooncake.spec.items() if name != "master_http_entry"}
    config = pb.StorageConfig(global_unique_name="moon", mooncake=pb.MooncakeStorageSpec(**said))
    assert code(control.call("AddStorage", pb.AddStorageRequest(storage=config))) == pb.OK
    storage_update(acting=OPERATOR, name="moon", spec={"master_http_entry": mooncake.http_address})
    listed = control.call("ListStorage", pb.ListStorageRequest()).storage
    assert listed[0].mooncake == config.mooncake
    config.mooncake.local_hostname = "127.0.0.2"
    assert code(control.call("UpdateStorage", pb.UpdateStorageRequest(storage=config))) == pb.OK
    entry = index_registry.read(index).storages["moon"]
    assert entry.is_available
    assert entry.spec == {**mooncake.spec, "local_hostname": "127.0.0.2"}


def test_storage_that_must_be_available(control: Control, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    config = nfs_config(tmp_path / "file" / "below")
    answer = control.call("AddStorage", pb.AddStorageRequest(storage=config))
    assert code(answer) == pb.OK
    assert "not available" in answer.header.status.message
    config.global_unique_name = "strict"
    config.check_storage_available_when_open = True
    assert code(control.call("AddStorage", pb.AddStorageRequest(storage=config))) == pb.IO_ERROR


def test_force_update_moves_a_storage_with_blocks(
    control: Control, index: redis.Redis, tmp_path: Path
) -> None:
    occupy(index, make_storage(tmp_path))
    moved = nfs_config(tmp_path / "new")
    held = control.call("UpdateStorage", pb.UpdateStorageRequest(storage=moved))
    assert (code(held), "holds 1 blocks" in held.header.status.message) == (pb.INTERNAL_ERROR, True)
    forced = control.call("UpdateStorage", pb.UpdateStorageRequest(storage=moved, force_update=True))
    assert code(forced) == pb.OK
    assert index_registry.read(index).storages["nfs_a"].spec["root_path"] == f"{tmp_path}/new/"


def test_force_update_takes_a_storage_that_does_not_work(control: Control, tmp_path: Path) -> None:
    make_storage(tmp_path)
    (tmp_path / "file").write_text("not a folder")
    broken = nfs_config(tmp_path / "file" / "below")
    broken.check_storage_available_when_open = True
    refused = control.call("UpdateStorage", pb.UpdateStorageRequest(storage=broken))
    assert code(refused) == pb.IO_ERROR
    forced = control.call("UpdateStorage", pb.UpdateStorageRequest(storage=broken, force_update=True))
    assert code(forced) == pb.OK
    control.call("DisableStorage", pb.DisableStorageRequest(storage_unique_name="nfs_a"))
    enabled = control.call("EnableStorage", pb.EnableStorageRequest(storage_unique_name="nfs_a"))
    assert code(enabled) == pb.IO_ERROR


def test_a_storage_that_leaves_is_gone_for_the_protocol(
    control: Control, index: redis.Redis, tmp_path: Path
) -> None:
    occupy(index, make_storage(tmp_path))
    held = control.call("RemoveStorage", pb.RemoveStorageRequest(storage_unique_name="nfs_a"))
    assert code(held) == pb.INTERNAL_ERROR
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    assert not control.call("ListStorage", pb.ListStorageRequest()).storage
    again = control.call("RemoveStorage", pb.RemoveStorageRequest(storage_unique_name="nfs_a"))
    assert code(again) == pb.OK
    assert "last blocks" in again.header.status.message


def test_storage_names(control: Control, tmp_path: Path) -> None:
    request = pb.AddStorageRequest(storage=nfs_config(tmp_path))
    assert code(control.call("AddStorage", request)) == pb.OK
    assert code(control.call("AddStorage", request)) == pb.DUPLICATE_ENTITY
    missing = pb.EnableStorageRequest(storage_unique_name="nobody")
    assert code(control.call("EnableStorage", missing)) == pb.INTERNAL_ERROR


def test_group_comes_back_as_it_was_sent(control: Control, index: redis.Redis) -> None:
    sent = group_message(storage_candidates=["later"])
    # Unset is the same as what it stands for, which is what is shown.
    sent.cache_config.reclaim_strategy.instance_reclaim_budget_policy = pb.GROUP_LRU
    answer = control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=sent))
    assert code(answer) == pb.OK
    assert "nfs_a" in answer.header.status.message  # a warning: it does not exist yet
    got = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="chat"))
    assert got.instance_group == sent
    assert list(control.call("ListInstanceGroup", pb.ListInstanceGroupRequest()).instance_group) == [sent]
    entry = index_registry.read(index).groups["chat"]
    assert entry.storage_candidates == ("nfs_a", "later")
    assert entry.quota.per_type == {StorageType.NFS: 1 << 29}


@pytest.mark.parametrize(
    ("break_it", "word"),
    [
        (lambda g: g.ClearField("name"), "name"),
        (lambda g: g.ClearField("storage_candidates"), "storage_candidates"),
        (lambda g: g.ClearField("global_quota_group_name"), "global_quota_group_name"),
        (lambda g: g.ClearField("cache_config"), "cache_config"),
        (lambda g: g.cache_config.ClearField("data_storage_strategy"), "data_storage_strategy"),
        (lambda g: g.cache_config.reclaim_strategy.ClearField("storage_unique_name"), "storage_unique_name"),
        (
            lambda g: g.cache_config.meta_indexer_config.meta_storage_backend_config.Clear(),
            "meta_storage_backend_config.storage_type",
        ),
        (
            lambda g: g.cache_config.meta_indexer_config.meta_cache_policy_config.Clear(),
            "meta_cache_policy_config.type",
        ),
        (lambda g: setattr(g.quota, "capacity", -1), "quota.capacity"),
        (lambda g: setattr(g.quota.quota_config[0], "storage_type", 0), "quota_config"),
        (
            lambda g: setattr(g.cache_config.reclaim_strategy.trigger_strategy, "used_percentage", -0.5),
            "used_percentage",
        ),
    ],
)
def test_bad_group(control: Control, break_it: Callable[[pb.InstanceGroup], None], word: str) -> None:
    message = group_message()
    break_it(message)
    answer = control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=message))
    assert code(answer) == pb.INVALID_ARGUMENT
    assert word in answer.header.status.message


def test_group_update_is_locked_by_version(control: Control, index: redis.Redis) -> None:
    control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=group_message()))

    def update(current: int, new: int, capacity: int) -> int:
        message = group_message(version=new)
        message.quota.capacity = capacity
        request = pb.UpdateInstanceGroupRequest(instance_group=message, current_version=current)
        return code(control.call("UpdateInstanceGroup", request))

    assert update(1, 7, 111) == pb.OK
    assert update(1, 8, 222) == pb.INTERNAL_ERROR
    assert update(7, 7, 333) == pb.INVALID_ARGUMENT
    group = index_registry.read(index).groups["chat"]
    assert (group.version, group.quota.capacity_bytes) == (7, 111)


def test_update_leaves_alone_what_the_protocol_cannot_say(control: Control, index: redis.Redis) -> None:
    from apps.instances.services import group_update
    from kvcm_platform.core.types import Placement, PreferStrategy
    from tests.factories.actors import ADMIN

    control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=group_message()))
    group_update(
        acting=ADMIN,
        name="chat",
        change=lambda s: replace(
            s,
            reclaim=replace(s.reclaim, low_watermark_ratio=0.6, grace_seconds=9),
            limits=FairnessLimits(100, 2000, 0.5),
            migration=MigrationPolicy("pool_a", "nfs_a", promote_after_hits=3),
            placement=Placement.BALANCED,
            prefer_strategy=PreferStrategy.PREFER_NFS,
        ),
    )
    shown = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="chat")).instance_group
    assert shown.cache_config.data_storage_strategy == pb.CPS_UNSPECIFIED
    message = group_message(version=3)
    message.cache_config.data_storage_strategy = shown.cache_config.data_storage_strategy
    request = pb.UpdateInstanceGroupRequest(instance_group=message, current_version=2)
    assert code(control.call("UpdateInstanceGroup", request)) == pb.OK
    group = index_registry.read(index).groups["chat"]
    assert group.limits == FairnessLimits(100, 2000, 0.5)
    assert (group.placement, group.prefer_strategy) == (Placement.BALANCED, PreferStrategy.PREFER_NFS)
    assert group.migration == MigrationPolicy("pool_a", "nfs_a", promote_after_hits=3)
    reclaim = group.reclaim
    assert (reclaim.low_watermark_ratio, reclaim.grace_seconds) == (0.6, 9)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        # 0 is what a client sends that does not know the field: it changes nothing.
        (pb.USAGE_PROPORTIONAL, ReclaimBudget.GROUP_LRU),
        (pb.FIXED_PER_INSTANCE, ReclaimBudget.FIXED),
        (pb.GROUP_LRU, ReclaimBudget.GROUP_LRU),
    ],
)
def test_budget_of_reclaim(
    control: Control, index: redis.Redis, number: int, expected: ReclaimBudget
) -> None:
    message = group_message()
    message.cache_config.reclaim_strategy.instance_reclaim_budget_policy = number
    control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=message))
    assert index_registry.read(index).groups["chat"].reclaim.budget is expected
    shown = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="chat")).instance_group
    wire = {ReclaimBudget.FIXED: pb.FIXED_PER_INSTANCE, ReclaimBudget.GROUP_LRU: pb.GROUP_LRU}[expected]
    assert shown.cache_config.reclaim_strategy.instance_reclaim_budget_policy == wire


def test_a_budget_of_no_version_is_refused_by_its_name(control: Control, index: redis.Redis) -> None:
    message = group_message()
    message.cache_config.reclaim_strategy.instance_reclaim_budget_policy = 9
    answer = control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=message))
    assert code(answer) == pb.INVALID_ARGUMENT
    assert "reclaim_strategy.instance_reclaim_budget_policy" in answer.header.status.message


def test_a_usage_proportional_budget_survives_reading_and_writing(
    control: Control, index: redis.Redis
) -> None:
    from apps.instances.services import group_update
    from tests.factories.actors import ADMIN

    control.call("CreateInstanceGroup", pb.CreateInstanceGroupRequest(instance_group=group_message()))
    group_update(
        acting=ADMIN,
        name="chat",
        change=lambda s: replace(
            s, reclaim=replace(s.reclaim, budget=ReclaimBudget.USAGE_PROPORTIONAL, ttl_seconds=5)
        ),
    )
    shown = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="chat")).instance_group
    assert shown.cache_config.reclaim_strategy.instance_reclaim_budget_policy == pb.USAGE_PROPORTIONAL
    shown.version = 3
    request = pb.UpdateInstanceGroupRequest(instance_group=shown, current_version=2)
    assert code(control.call("UpdateInstanceGroup", request)) == pb.OK
    reclaim = index_registry.read(index).groups["chat"].reclaim
    assert (reclaim.budget, reclaim.ttl_seconds) == (ReclaimBudget.USAGE_PROPORTIONAL, 5)


def test_group_with_instances_stays(control: Control, index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    make_instance()
    remove = pb.RemoveInstanceGroupRequest(name="chat")
    answer = control.call("RemoveInstanceGroup", remove)
    assert (code(answer), "1 registered" in answer.header.status.message) == (pb.INTERNAL_ERROR, True)
    control.call("RemoveInstance", pb.RemoveInstanceRequest(instance_id="model-a"))
    assert code(control.call("RemoveInstanceGroup", remove)) == pb.OK
    assert index_registry.read(index).groups == {}


def test_instance_from_register_to_remove(control: Control, index: redis.Redis, sent: list[str]) -> None:
    make_group()
    assert code(control.call("RegisterInstance", register_request())) == pb.OK
    entry = index_registry.read(index).instances["model-a"]
    assert 0 < entry.number < 1 << 48
    info = control.call("GetInstanceInfo", pb.GetInstanceInfoRequest(instance_id="model-a")).instance_info
    assert info.quota_group_name == "default_quota_group"
    assert info.location_spec_infos == register_request().location_spec_infos
    assert info.model_deployment == register_request().model_deployment
    listed = control.call("ListInstanceInfo", pb.ListInstanceInfoRequest(instance_group_name="chat"))
    assert list(listed.instance_info) == [info]
    unknown = control.call("ListInstanceInfo", pb.ListInstanceInfoRequest(instance_group_name="other"))
    assert (code(unknown), len(unknown.instance_info)) == (pb.OK, 0)
    assert code(control.call("ListInstanceInfo", pb.ListInstanceInfoRequest())) == pb.INVALID_ARGUMENT
    assert code(control.call("RemoveInstance", pb.RemoveInstanceRequest(instance_id="model-a"))) == pb.OK
    assert index_registry.read(index).instances == {}
    assert leaving.decode(index.hgetall(keyspace.LEAVING)) == [entry]
    assert "apps.cache_index.tasks.run_duties" in sent
    gone = control.call("GetInstanceInfo", pb.GetInstanceInfoRequest(instance_id="model-a"))
    assert code(gone) == pb.INSTANCE_NOT_EXIST


def test_registration_again(control: Control) -> None:
    make_group()
    assert code(control.call("RegisterInstance", register_request())) == pb.OK
    same = register_request()
    same.model_deployment.user_data = "other"
    assert code(control.call("RegisterInstance", same)) == pb.OK
    other = register_request()
    other.block_size = 32
    answer = control.call("RegisterInstance", other)
    assert (code(answer), "block_size" in answer.header.status.message) == (pb.DUPLICATE_ENTITY, True)
    lost = control.call("RegisterInstance", register_request("model-b", "nowhere"))
    assert (code(lost), "instance_group" in lost.header.status.message) == (pb.INVALID_ARGUMENT, True)


def test_accounts(control: Control) -> None:
    add = pb.AddAccountRequest(user_name="eve", password="a long enough secret", role=pb.ROLE_ADMIN)
    assert code(control.call("AddAccount", add)) == pb.OK
    weak = control.call("AddAccount", pb.AddAccountRequest(user_name="engine-1", password="x"))
    assert (code(weak), "without a usable login" in weak.header.status.message) == (pb.OK, True)
    assert not User.objects.get(username="engine-1").has_usable_password()
    assert code(control.call("AddAccount", pb.AddAccountRequest())) == pb.INVALID_ARGUMENT
    roles = {a.user_name: a.role for a in control.call("ListAccount", pb.ListAccountRequest()).accounts}
    assert (roles["eve"], roles["engine-1"]) == (pb.ROLE_ADMIN, pb.ROLE_USER)
    assert code(control.call("DeleteAccount", pb.DeleteAccountRequest(user_name="eve"))) == pb.OK
    assert code(control.call("DeleteAccount", pb.DeleteAccountRequest(user_name="eve"))) == pb.INTERNAL_ERROR


def test_metrics_and_snapshots(control: Control, index: redis.Redis) -> None:
    make_group()
    make_instance()
    detail = {"search_cache": asdict(CacheCounters(hit_chunks=3, miss_chunks=1))}
    heartbeat.beat(index, "metadata", "here", detail)
    answer = control.call("GetMetrics", pb.GetMetricsRequest())
    ratios = [m for m in answer.metrics if m.metric_name == "meta_indexer.search_cache_hit_ratio"]
    assert [metric.metric_value.float_value for metric in ratios] == [0.75]
    names = {metric.metric_name for metric in answer.metrics}
    assert {"cache_manager_group.usage_ratio", "cache_manager_instance.key_count"} <= names
    assert answer.timestamp > 1_600_000_000_000
    assert code(control.call("GenConfigSnapshot", pb.GenConfigSnapshotRequest())) == pb.UNSUPPORTED
