"""The whole platform on the fast endpoint: registration through control, AdminService on the same port."""

from __future__ import annotations

import grpc
import pytest

from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import admin_service_pb2_grpc as admin_grpc
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb import meta_service_pb2_grpc as pb_grpc
from tests.support.platform_process import PlatformProcess, short_data_dir

SECONDS = 15


def test_registration_writing_and_admin_calls():
    with short_data_dir() as folder:
        process = PlatformProcess(
            ["manage.py", "up"], folder, KVCM_TRANSPORT="fast", KVCM_METADATA_WORKERS="2"
        )
        try:
            process.wait_until_ready()
            with grpc.insecure_channel(f"127.0.0.1:{process.port('KVCM_META_RPC_PORT')}") as channel:
                stub = pb_grpc.MetaServiceStub(channel)
                request = pb.RegisterInstanceRequest(
                    instance_group="default",
                    instance_id="over-fast",
                    block_size=16,
                    location_spec_infos=[pb.LocationSpecInfo(name="tp0", size=1024)],
                    model_deployment=pb.ModelDeployment(model_name="model", dtype="fp8"),
                )
                for _ in range(2):
                    answer = stub.RegisterInstance(request, timeout=SECONDS)
                    assert answer.header.status.code == pb.OK, answer.header.status.message
                start = pb.StartWriteCacheRequest(instance_id="over-fast", block_keys=range(1, 101))
                started = stub.StartWriteCache(start, timeout=SECONDS)
                assert len(started.locations) == 100
                admin = admin_grpc.AdminServiceStub(channel)
                with pytest.raises(grpc.RpcError) as refused:
                    admin.ListStorage(admin_pb.ListStorageRequest(), timeout=SECONDS)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert process.stop() == 0
        finally:
            process.end()
