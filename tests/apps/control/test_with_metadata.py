"""Control and a real metadata process: registration, forwarded admin calls, calls on blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from apps.accounts.models import User
from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.instances.models import Instance
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import admin_service_pb2_grpc as admin_grpc
from kvcm_platform.pb import kv_meta_service_pb2 as kv_pb
from kvcm_platform.pb import kv_meta_service_pb2_grpc as kv_grpc
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb import meta_service_pb2_grpc as meta_grpc
from tests.apps.control.conftest import Control, Start
from tests.factories.actors import make_token
from tests.factories.messages import register_request
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.metadata_process import metadata_process
from tests.support.platform_process import free_ports
from tests.support.valkey import ValkeyServer


@pytest.fixture
def platform(
    start_control: Start, empty_valkey: ValkeyServer, tmp_path: Path
) -> Iterator[tuple[Control, grpc.Channel]]:
    """Both processes, and a channel to the meta port."""
    (port,) = free_ports(1)
    control = start_control(make_token(Role.ADMIN), KVCM_META_RPC_PORT=str(port))
    variables = {"KVCM_ADMIN_RPC_PORT": str(control.process.rpc_port), "KVCM_META_RPC_PORT": str(port)}
    with (
        metadata_process(empty_valkey.url, tmp_path, **variables) as process,
        grpc.insecure_channel(process.rpc) as channel,
    ):
        yield control, channel


def test_engine_registers_writes_and_is_removed(
    platform: tuple[Control, grpc.Channel], tmp_path: Path
) -> None:
    control, channel = platform
    make_storage(tmp_path)
    make_group()
    meta = meta_grpc.MetaServiceStub(channel)
    request = pb.RegisterInstanceRequest.FromString(register_request().SerializeToString())
    answer = meta.RegisterInstance(request, timeout=10)
    assert answer.header.status.code == pb.OK, answer.header.status.message
    assert '"global_unique_name":"nfs_a"' in answer.storage_configs
    assert Instance.objects.get().instance_id == "model-a"
    assert AuditEntry.objects.get(action="instance.register").actor == "system:metadata"
    started = meta.StartWriteCache(
        pb.StartWriteCacheRequest(instance_id="model-a", block_keys=[1, 2], write_timeout_seconds=30),
        timeout=10,
    )
    assert len(started.locations) == 2, started.header.status.message
    metas = control.call(
        "GetCacheMeta", admin_pb.GetCacheMetaRequest(instance_id="model-a", block_keys=[1, 2, 3])
    )
    assert [("WRITING" in m, "NOT_FOUND" in m) for m in metas.metas] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    removed = control.call("RemoveCache", admin_pb.RemoveCacheRequest(instance_id="model-a", block_keys=[1]))
    assert removed.header.status.code == admin_pb.OK
    unknown = control.call("RemoveCache", admin_pb.RemoveCacheRequest(instance_id="nobody", block_keys=[1]))
    assert unknown.header.status.code == admin_pb.INSTANCE_NOT_EXIST
    busy = control.call("RemoveStorage", admin_pb.RemoveStorageRequest(storage_unique_name="nfs_a"))
    assert (busy.header.status.code, "holds" in busy.header.status.message) == (admin_pb.INTERNAL_ERROR, True)


@pytest.mark.parametrize("mode", [{"KVCM_META_AUTH": "token"}, {"KVCM_META_AUTH": "network"}])
def test_calls_on_blocks_where_the_data_plane_asks_for_more(
    start_control: Start, empty_valkey: ValkeyServer, tmp_path: Path, mode: dict[str, str]
) -> None:
    """A viewer's token is no engine's, and this host is in no network: control has judged the call."""
    (port,) = free_ports(1)
    control = start_control(make_token(Role.VIEWER), KVCM_META_RPC_PORT=str(port))
    make_storage(tmp_path)
    make_group()
    make_instance()
    variables = {"KVCM_ADMIN_RPC_PORT": str(control.process.rpc_port), "KVCM_META_RPC_PORT": str(port)}
    with metadata_process(empty_valkey.url, tmp_path, **variables, **mode, KVCM_META_NETWORKS="10.0.0.0/8"):
        request = admin_pb.GetCacheMetaRequest(instance_id="model-a", block_keys=[1])
        answer = control.call("GetCacheMeta", request)
    assert answer.header.status.code == admin_pb.OK, answer.header.status.message
    assert len(answer.metas) == 1


def test_admin_service_on_the_meta_port(platform: tuple[Control, grpc.Channel]) -> None:
    control, channel = platform
    admin = admin_grpc.AdminServiceStub(channel)
    with pytest.raises(grpc.RpcError) as refused:
        admin.AddAccount(admin_pb.AddAccountRequest(user_name="eve"), timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(grpc.RpcError) as refused:
        admin.RegisterInstance(register_request(), timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    request = admin_pb.AddAccountRequest(user_name="eve", password="a long enough secret")
    answer = admin.AddAccount(request, timeout=10, metadata=control.metadata)
    assert answer.header.status.code == admin_pb.OK
    assert User.objects.filter(username="eve").exists()
    assert AuditEntry.objects.get(action="account.create", object_name="eve").address == "127.0.0.1"


def test_an_instance_of_keys_and_values(platform: tuple[Control, grpc.Channel], tmp_path: Path) -> None:
    """It is registered through control like any other, and is one of the instances that operators see."""
    control, channel = platform
    make_storage(tmp_path)
    make_group()
    kv = kv_grpc.MetaServiceStub(channel)
    request = kv_pb.RegisterInstanceRequest(
        instance_group="chat", instance_id="values", user_data='{"value_bytes": 4096}'
    )
    answer = kv.RegisterInstance(request, timeout=10)
    assert answer.header.status.code == kv_pb.OK, answer.header.status.message
    assert '"global_unique_name":"nfs_a"' in answer.storage_configs
    row = Instance.objects.get()
    assert row.location_spec_infos == [{"name": "value", "size": 4096}]
    started = kv.PutStart(kv_pb.PutStartRequest(instance_id="values", keys=["a", "b"]), timeout=10)
    assert len(started.locations) == 2, started.header.status.message
    metas = control.call("GetCacheMeta", admin_pb.GetCacheMetaRequest(instance_id="values", block_keys=[1]))
    assert metas.header.status.code == admin_pb.INVALID_ARGUMENT
    # Without a size the registered one stays; with another the content differs.
    request.user_data = ""
    assert kv.RegisterInstance(request, timeout=10).header.status.code == kv_pb.OK
    request.user_data = '{"value_bytes": 8192}'
    refused = kv.RegisterInstance(request, timeout=10).header.status
    assert (refused.code, "location_spec_infos" in refused.message) == (kv_pb.INVALID_ARGUMENT, True)
    request.instance_id, request.user_data = "default-size", ""
    assert kv.RegisterInstance(request, timeout=10).header.status.code == kv_pb.OK
    row = Instance.objects.get(instance_id="default-size")
    assert row.location_spec_infos == [{"name": "value", "size": 1 << 20}]
    # Nobody else may use the name that marks such instances.
    blocks = register_request(instance_id="pretender")
    blocks.model_deployment.model_name = row.model_deployment["model_name"]
    meta = meta_grpc.MetaServiceStub(channel)
    answer = meta.RegisterInstance(
        pb.RegisterInstanceRequest.FromString(blocks.SerializeToString()), timeout=10
    )
    assert answer.header.status.code == pb.INVALID_ARGUMENT
    assert "reserved" in answer.header.status.message
