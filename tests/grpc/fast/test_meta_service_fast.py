"""The scenarios of MetaService once more, over the fast endpoint, and its two streaming methods."""

from __future__ import annotations

import queue
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.grpc import test_meta_service as scenarios
from tests.support.metadata_process import metadata_process

SECONDS = scenarios.SECONDS
keys = scenarios.keys
globals().update({name: value for name, value in vars(scenarios).items() if name.startswith("test_")})


def test_health(process):
    with grpc.insecure_channel(process.rpc) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "kv_cache_manager.proto.meta.MetaService", "grpc.health.v1.Health"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_watch_tells_the_state_at_once_and_stays(process):
    with grpc.insecure_channel(process.rpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name, status in (("", "SERVING"), ("nothing", "SERVICE_UNKNOWN")):
            watch = stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
            assert health_pb2.HealthCheckResponse.ServingStatus.Name(next(watch).status) == status
            assert watch.is_active()
            watch.cancel()
            with pytest.raises(grpc.RpcError) as caught:
                next(watch)
            assert caught.value.code() is grpc.StatusCode.CANCELLED


def test_reflection_says_what_grpcio_says(process, server, tmp_path):
    """A client that asks one question after the other, and one that asks all at once."""
    asked = [
        {"list_services": ""},
        {"file_containing_symbol": "kv_cache_manager.proto.meta.MetaService"},
        {"file_by_filename": "meta_service.proto"},
        {"file_containing_symbol": "no.Such"},
        {"all_extension_numbers_of_type": "kv_cache_manager.proto.meta.Status"},
    ]
    requests = [reflection_pb2.ServerReflectionRequest(**one) for one in asked]
    found = []
    with metadata_process(server[1].url, tmp_path, KVCM_TRANSPORT="grpcio") as oracle:
        for address in (process.rpc, oracle.rpc):
            with grpc.insecure_channel(address) as channel:
                stub = reflection_pb2_grpc.ServerReflectionStub(channel)
                together = list(stub.ServerReflectionInfo(iter(requests), timeout=SECONDS))
                assert len(together) == len(requests)
                waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
                talk = stub.ServerReflectionInfo(iter(waiting.get, None), timeout=SECONDS)
                one_by_one = []
                for request in requests:
                    waiting.put(request)
                    one_by_one.append(next(talk))
                waiting.put(None)
                assert list(talk) == []
                assert one_by_one == together
                names = sorted(one.name for one in together[0].list_services_response.service)
                found.append((names, together[1:]))
    assert found[0] == found[1]
    assert "kv_cache_manager.proto.meta.MetaService" in found[0][0]


def test_an_orderly_stop_ends_watches(server, tmp_path):
    with metadata_process(server[1].url, tmp_path) as process, grpc.insecure_channel(process.rpc) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        next(watch)
        process.process.terminate()
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert process.process.wait(40) == 0
