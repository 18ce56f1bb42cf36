"""MetaService through a real channel: headers, statuses, masks and limits of WIRE.md."""

from __future__ import annotations

import hashlib
import json
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from kvcm_platform.index import keyspace, registry
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import admin_service_pb2_grpc as admin_grpc
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb import meta_service_pb2_grpc as pb_grpc
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import metadata_process

SECONDS = 30
_next_key = iter(range(10_000, 10_000_000, 100))


@pytest.fixture
def keys() -> list[int]:
    """Five keys that no other test uses."""
    first = next(_next_key)
    return [first, -first, first + 1, first + 2, first + 3]


def start(stub, keys, **options):
    request = pb.StartWriteCacheRequest(trace_id="t", instance_id="model-a", block_keys=keys, **options)
    return stub.StartWriteCache(request, timeout=SECONDS)


def finish(stub, session_id, mask=None, instance_id="model-a"):
    request = pb.FinishWriteCacheRequest(
        trace_id="t", instance_id=instance_id, write_session_id=session_id, success_blocks=mask
    )
    return stub.FinishWriteCache(request, timeout=SECONDS)


def locate(stub, keys, query=pb.QT_PREFIX_MATCH, **options):
    request = pb.GetCacheLocationRequest(
        trace_id="t",
        instance_id=options.pop("instance_id", "model-a"),
        query_type=query,
        block_keys=keys,
        **options,
    )
    return stub.GetCacheLocation(request, timeout=SECONDS)


def code(answer) -> str:
    return pb.ErrorCode.Name(answer.header.status.code)


def test_write_and_match(stub, keys):
    started = start(stub, keys)
    assert (code(started), len(started.write_session_id)) == ("OK", 32)
    assert started.block_mask.WhichOneof("info") == "offset"
    assert started.block_mask.offset == 0
    assert code(finish(stub, started.write_session_id, pb.BlockMask(offset=5))) == "OK"
    found = locate(stub, keys)
    assert code(found) == "OK"
    assert list(found.locations) == list(started.locations)
    assert {location.type for location in found.locations} == {pb.ST_NFS}
    assert found.locations[0].spec_size == 1
    assert found.locations[0].location_specs[0].name == "tp0"


def test_bool_masks_both_ways(stub, keys):
    first = start(stub, keys[2:3])
    finish(stub, first.write_session_id, pb.BlockMask(bool_masks=pb.BoolMasksType(values=[True])))
    second = start(stub, keys)
    assert list(second.block_mask.bool_masks.values) == [False, False, True, False, False]
    assert len(second.locations) == 4
    mask = pb.BlockMask(bool_masks=pb.BoolMasksType(values=[True, False, True, True]))
    assert code(finish(stub, second.write_session_id, mask)) == "OK"
    batch = locate(stub, keys, pb.QT_BATCH_GET)
    assert [bool(x.location_specs[0].uri) for x in batch.locations] == [True, False, True, True, True]
    query_mask = pb.BlockMask(bool_masks=pb.BoolMasksType(values=[False, True]))
    assert len(locate(stub, keys, block_mask=query_mask).locations) == 4


def test_request_id_is_trace_id_and_epoch(stub, keys):
    before = time.time_ns() // 1000
    trace, _, stamp = locate(stub, keys).header.request_id.rpartition("_")
    assert trace == "t"
    assert before <= int(stamp) <= time.time_ns() // 1000


def test_span_tracer_on_demand(stub):
    request = pb.GetInstanceInfoRequest(trace_id="x__kvcm_need_span_tracer", instance_id="model-a")
    answer = stub.GetInstanceInfo(request, timeout=SECONDS)
    spans = json.loads(answer.header.tracer_result)
    assert spans["name"] == "GetInstanceInfo"
    assert code(answer) == "OK"
    assert answer.instance_info.instance_id == "model-a"


@pytest.mark.parametrize(
    ("call", "expected", "message"),
    [
        (lambda s, k: locate(s, k, instance_id="nobody"), "INSTANCE_NOT_EXIST", "nobody"),
        (lambda s, k: locate(s, k, instance_id=""), "INSTANCE_NOT_EXIST", ""),
        (lambda s, k: locate(s, [], pb.QT_PREFIX_MATCH), "INVALID_ARGUMENT", "block_keys"),
        (lambda s, k: locate(s, k, pb.QT_UNSPECIFIED), "INVALID_ARGUMENT", "query_type"),
        (lambda s, k: locate(s, k, 77), "INVALID_ARGUMENT", "query_type"),
        (
            lambda s, k: locate(s, k, block_mask=pb.BlockMask(offset=-1)),
            "INVALID_ARGUMENT",
            "block_mask.offset",
        ),
        (lambda s, k: locate(s, k, pb.QT_REVERSE_ROLL_SW_MATCH, sw_size=6), "INVALID_ARGUMENT", "sw_size"),
        (
            lambda s, k: start(s, k, location_spec_group_names=["x"]),
            "INVALID_ARGUMENT",
            "location_spec_group_names",
        ),
        (
            lambda s, k: finish(s, "never", pb.BlockMask(offset=0)),
            "INTERNAL_ERROR",
            "write_session_id has been deleted",
        ),
        (lambda s, k: finish(s, start(s, k).write_session_id), "INVALID_ARGUMENT", "success_blocks"),
        (
            lambda s, k: finish(s, start(s, k).write_session_id, pb.BlockMask(offset=5), "two"),
            "INTERNAL_ERROR",
            "write_session_id has been deleted",
        ),
    ],
)
def test_refusals_travel_in_the_header(stub, keys, call, expected, message):
    answer = call(stub, keys)
    assert code(answer) == expected
    assert message in answer.header.status.message
    assert answer.header.request_id.startswith("t_")


def test_locations_by_backend(stub, keys):
    """A second replica lies on the only storage here; the answer has one location for each selector."""
    started = start(stub, keys)
    assert code(finish(stub, started.write_session_id, pb.BlockMask(offset=len(started.locations)))) == "OK"
    again = start(stub, keys[:2], min_replica_count=2)
    assert again.block_mask.offset == 0
    selectors = [{"backend_type": pb.ST_NFS, "strategy": pb.LSS_WEIGHTED_RANDOM}, {"backend_type": pb.ST_3FS}]
    request = pb.GetCacheLocationsByBackendRequest(
        instance_id="model-a",
        query_type=pb.QT_BATCH_GET,
        block_keys=[*keys, 987],
        backend_selectors=selectors,
    )
    answer = stub.GetCacheLocationsByBackend(request, timeout=SECONDS)
    assert code(answer) == "OK"
    assert [len(vector.locations) for vector in answer.key_locations] == [1] * len(keys) + [0]
    assert [vector.locations[0] for vector in answer.key_locations[:-1]] == list(started.locations)


@pytest.mark.parametrize("name", ["GetHostCacheState", "ReportEvent"])
def test_later_rpcs_are_declared_and_unsupported(stub, name):
    request = getattr(pb, f"{name}Request")(instance_id="model-a")
    assert code(getattr(stub, name)(request, timeout=SECONDS)) == "UNSUPPORTED"


def test_meta_of_blocks(stub, keys):
    started = start(stub, keys[:2])
    request = pb.GetCacheMetaRequest(instance_id="model-a", block_keys=keys[:3])
    answer = stub.GetCacheMeta(request, timeout=SECONDS)
    metas = [json.loads(text) for text in answer.metas]
    assert [meta["status"] for meta in metas] == ["CLS_WRITING", "CLS_WRITING", "CLS_NOT_FOUND"]
    assert metas[2]["id"] == ""
    assert len(metas[0]["id"]) == 8
    assert answer.locations[0] == started.locations[0]
    assert answer.locations[2].location_specs[0].uri == ""


def test_remove_and_trim(stub, keys):
    started = start(stub, keys)
    finish(stub, started.write_session_id, pb.BlockMask(offset=5))
    keep_first = pb.BlockMask(offset=1)
    request = pb.RemoveCacheRequest(instance_id="model-a", block_keys=keys, block_mask=keep_first)
    assert code(stub.RemoveCache(request, timeout=SECONDS)) == "OK"
    assert len(locate(stub, keys).locations) == 1
    trim = pb.TrimCacheRequest(instance_id="model-a", strategy=pb.TS_REMOVE_ALL_CACHE)
    assert code(stub.TrimCache(trim, timeout=SECONDS)) == "OK"
    assert len(locate(stub, keys).locations) == 0
    assert (
        code(stub.TrimCache(pb.TrimCacheRequest(instance_id="model-a"), timeout=SECONDS))
        == "INVALID_ARGUMENT"
    )


def test_identical_registration_is_answered_without_control(stub):
    """Control is not running here: only the registry can have answered. Spec groups may come unsorted."""
    request = pb.RegisterInstanceRequest(
        instance_group="ignored",
        instance_id="two",
        block_size=4,
        location_spec_infos=[
            pb.LocationSpecInfo(name="tp0", size=64),
            pb.LocationSpecInfo(name="tp1", size=64),
        ],
        location_spec_groups=[pb.LocationSpecGroup(name="some", spec_names=["tp0"])],
        model_deployment=pb.ModelDeployment(model_name="model", dtype="fp8", user_data="differs"),
    )
    answer = stub.RegisterInstance(request, timeout=SECONDS)
    assert code(answer) == "OK"
    (config,) = json.loads(answer.storage_configs)
    assert config["type"] == "file"
    assert config["global_unique_name"] == "nfs_01"
    assert config["is_available"] is True
    assert config["storage_spec"]["key_count_per_file"] == 8
    assert config["storage_spec"]["root_path"].endswith("/nfs/")
    request.block_size = 8
    assert code(stub.RegisterInstance(request, timeout=SECONDS)) == "SERVICE_NOT_READY"


def test_cluster_info(stub, process):
    answer = stub.GetClusterInfo(pb.GetClusterInfoRequest(), timeout=SECONDS)
    assert answer.self_node_id == answer.leader_node_id == answer.leader_endpoint.node_id != ""
    assert (answer.leader_endpoint.meta_rpc_port, answer.leader_endpoint.meta_http_port) == (
        process.rpc_port,
        process.http_port,
    )


def test_admin_calls_are_forwarded_and_say_when_control_is_away(process):
    with grpc.insecure_channel(process.rpc) as channel, pytest.raises(grpc.RpcError) as caught:
        admin_grpc.AdminServiceStub(channel).ListStorage(admin_pb.ListStorageRequest(), timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_health_and_reflection(process):
    with grpc.insecure_channel(process.rpc) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        name = "kv_cache_manager.proto.meta.MetaService"
        answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        (listed,) = reflection.ServerReflectionInfo(requests, timeout=SECONDS)
        assert name in {service.name for service in listed.list_services_response.service}


def test_clients_that_ping_without_calls_are_not_sent_away(process, keys):
    """The C++ client's keepalive (WIRE.md 8.5), twenty times faster."""
    options = [
        ("grpc.keepalive_time_ms", 500),
        ("grpc.keepalive_timeout_ms", 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_sent_ping_interval_without_data_ms", 500),
    ]
    with grpc.insecure_channel(process.rpc, options=options) as channel:
        states = []
        channel.subscribe(states.append, try_to_connect=True)
        stub = pb_grpc.MetaServiceStub(channel)
        assert code(locate(stub, keys)) == "OK"
        time.sleep(4)
        assert code(locate(stub, keys)) == "OK"
        assert grpc.ChannelConnectivity.TRANSIENT_FAILURE not in states
        assert states[-1] is grpc.ChannelConnectivity.READY


def test_token_mode(server, tmp_path):
    valkey = server[1]
    valkey.client().hset(
        "kvcm:tokens",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",  # sha256 of "test"
        json.dumps({"role": "engine", "groups": None, "expires_at": None}),
    )
    with (
        metadata_process(valkey.url, tmp_path, KVCM_META_AUTH="token") as guarded,
        grpc.insecure_channel(guarded.rpc) as channel,
    ):
        stub = pb_grpc.MetaServiceStub(channel)
        request = pb.GetInstanceInfoRequest(instance_id="model-a")
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", "test"),)):
            with pytest.raises(grpc.RpcError) as caught:
                stub.GetInstanceInfo(request, timeout=SECONDS, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        answer = stub.GetInstanceInfo(request, timeout=SECONDS, metadata=(("authorization", "Bearer test"),))
        assert code(answer) == "OK"


def test_a_token_limited_to_groups(server, tmp_path, keys):
    valkey = server[1]
    digest = hashlib.sha256(b"narrow").hexdigest()
    claim = {"role": "engine", "groups": ["other"], "expires_at": None}
    valkey.client().hset(keyspace.TOKENS, digest, json.dumps(claim))
    variables = {"KVCM_META_AUTH": "token", "KVCM_INTERNAL_TOKEN": "of control"}
    with (
        metadata_process(valkey.url, tmp_path, **variables) as guarded,
        grpc.insecure_channel(guarded.rpc) as channel,
    ):
        stub = pb_grpc.MetaServiceStub(channel)
        bearer = (("authorization", "Bearer narrow"),)
        register = pb.RegisterInstanceRequest(instance_group="default", instance_id="new")
        for call, request in (
            (stub.GetInstanceInfo, pb.GetInstanceInfoRequest(instance_id="model-a")),
            (stub.StartWriteCache, pb.StartWriteCacheRequest(instance_id="model-a", block_keys=keys)),
            (stub.TrimCache, pb.TrimCacheRequest(instance_id="model-a", strategy=pb.TS_REMOVE_ALL_CACHE)),
            (stub.RegisterInstance, register),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=SECONDS, metadata=bearer)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        unknown = pb.GetInstanceInfoRequest(instance_id="nobody")
        assert code(stub.GetInstanceInfo(unknown, timeout=SECONDS, metadata=bearer)) == "INSTANCE_NOT_EXIST"
        # Control comes with the internal token, after its own checks.
        internal = (("x-kvcm-internal", "of control"),)
        request = pb.GetInstanceInfoRequest(instance_id="model-a")
        assert code(stub.GetInstanceInfo(request, timeout=SECONDS, metadata=internal)) == "OK"


def test_two_processes_share_the_ports_and_the_truth(server, tmp_path, keys):
    valkey = server[1]
    registry.publish(valkey.client(), version=1, changed=[storage(tmp_path / "nfs"), group(), instance()])
    with metadata_process(valkey.url, tmp_path) as first:
        ports = {"KVCM_META_RPC_PORT": str(first.rpc_port), "KVCM_META_HTTP_PORT": str(first.http_port)}
        with metadata_process(valkey.url, tmp_path, **ports):
            channels = [
                grpc.insecure_channel(first.rpc, options=[("grpc.use_local_subchannel_pool", 1)])
                for _ in range(8)
            ]
            stubs = [pb_grpc.MetaServiceStub(channel) for channel in channels]
            for index, one in enumerate(stubs):
                chain = [keys[0] + 50 * index + depth for depth in range(5)]
                finish(one, start(one, chain).write_session_id, pb.BlockMask(offset=5))
                assert {len(locate(other, chain).locations) for other in stubs} == {5}
            for channel in channels:
                channel.close()


def test_a_node_that_was_demoted_sends_its_clients_away(server, tmp_path, keys):
    """SERVER_NOT_LEADER makes C++ clients try another address; GetClusterInfo is always answered."""
    valkey = server[1]
    with (
        metadata_process(valkey.url, tmp_path, KVCM_NODE_ID="node-b") as other,
        grpc.insecure_channel(other.rpc) as channel,
    ):
        stub = pb_grpc.MetaServiceStub(channel)
        client = valkey.client()
        client.set(keyspace.demoted("node-b"), "1", px=60_000)
        deadline = time.monotonic() + 40
        while code(answer := locate(stub, keys, instance_id="nobody")) != "SERVER_NOT_LEADER":
            assert time.monotonic() < deadline, answer
        assert answer.header.status.message == "Server is not leader"
        assert code(stub.GetClusterInfo(pb.GetClusterInfoRequest(), timeout=SECONDS)) == "OK"
        client.delete(keyspace.demoted("node-b"))
        while code(locate(stub, keys)) != "OK":
            assert time.monotonic() < deadline
