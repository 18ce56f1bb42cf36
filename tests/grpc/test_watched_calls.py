"""A real process tells of calls over both of its doors and both transports."""

from __future__ import annotations

import json
import urllib.request

import grpc
import pytest

from kvcm_platform.index import keyspace, registry, request_switches
from kvcm_platform.index.capture_files import CaptureProgress, take_events
from kvcm_platform.index.request_switches import CaptureSwitch, SampleSwitch
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub
from tests.support.data_plane import group, instance, storage
from tests.support.eventually import eventually
from tests.support.metadata_process import metadata_process

ALWAYS = 1 << 50


@pytest.mark.parametrize(
    "variables",
    [
        {"KVCM_TRANSPORT": "fast"},
        {"KVCM_TRANSPORT": "grpcio"},
        {"KVCM_INDEX_BACKEND": "local", "KVCM_METADATA_WORKERS": "1"},
    ],
    ids=["fast", "grpcio", "local"],
)
def test_calls_over_grpc_and_http_are_told(empty_valkey, tmp_path, variables):
    client = empty_valkey.client()
    (tmp_path / "nfs").mkdir()
    registry.publish(client, version=1, changed=(storage(tmp_path / "nfs"), group(), instance()))
    # Switched on before the process starts: it follows the switches before it has answered for long.
    request_switches.set_samples(client, {1: SampleSwitch(0, ALWAYS)})
    request_switches.set_capture(client, "one", CaptureSwitch(frozenset({"model-a"}), ALWAYS))
    with (
        metadata_process(empty_valkey.url, tmp_path, **variables) as process,
        grpc.insecure_channel(process.rpc) as channel,
    ):
        stub = MetaServiceStub(channel)

        def ask() -> None:
            keys = list(range(8))
            stub.GetCacheLocation(
                pb.GetCacheLocationRequest(instance_id="model-a", query_type=2, block_keys=keys)
            )

        def is_followed() -> bool:
            ask()
            return bool(client.xlen(keyspace.sampled_requests(1)))

        eventually(is_followed)
        started = stub.StartWriteCache(pb.StartWriteCacheRequest(instance_id="model-a", block_keys=range(8)))
        body = {
            "instance_id": "model-a",
            "write_session_id": started.write_session_id,
            "success_blocks": {"offset": 8},
        }
        _post(process.http, "finishWriteCache", body)
        for _ in range(3):
            ask()
        body = {"instance_id": "model-a", "query_type": "QT_PREFIX_MATCH", "block_keys": list(range(8))}
        assert len(_post(process.http, "getCacheLocation", body)["locations"]) == 8
    # The process has ended in order: what it had noted was told.
    lines = take_events(client, "one", CaptureProgress())[1]
    events = [json.loads(line) for line in lines]
    start = next(at for at, event in enumerate(events) if event["type"] == "StartWriteCache")
    assert [event["type"] for event in events[start:]] == [
        "StartWriteCache",
        "FinishWriteCache",
        *["GetCacheLocation"] * 4,
    ]
    assert [event["hit_blocks"] for event in events[start + 2 :]] == [8] * 4
    client.close()


def _post(address: str, name: str, body: object) -> dict:
    request = urllib.request.Request(
        f"{address}/api/{name}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)
