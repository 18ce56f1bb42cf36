"""The scenarios of MetaService once more, over the fast endpoint; reflection streams, so it is not there."""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.grpc import test_meta_service as scenarios

SECONDS = scenarios.SECONDS
keys = scenarios.keys
globals().update(
    {
        name: value
        for name, value in vars(scenarios).items()
        if name.startswith("test_") and name != "test_health_and_reflection"
    }
)


def test_health(process):
    with grpc.insecure_channel(process.rpc) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "kv_cache_manager.proto.meta.MetaService", "grpc.health.v1.Health"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_streaming_services_are_not_implemented(process):
    with grpc.insecure_channel(process.rpc) as channel:
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        with pytest.raises(grpc.RpcError) as caught:
            list(reflection.ServerReflectionInfo(requests, timeout=SECONDS))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        with pytest.raises(grpc.RpcError) as caught:
            list(watch)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
