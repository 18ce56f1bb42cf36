"""The key-value services through every door (WIRE.md B, kv_meta; proto/kvcm_v1.proto)."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from kvcm_platform.index import keyspace, registry
from kvcm_platform.pb import kv_meta_service_pb2 as kv_pb
from kvcm_platform.pb import kvcm_v1_pb2 as v1_pb
from tests.support.data_plane import VALUE_BYTES, group, instance, storage, value_instance
from tests.support.doors import DOORS, Door, door_of
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import ValkeyServer, valkey_server

KV = kv_pb.DESCRIPTOR.services_by_name["MetaService"]
V1 = v1_pb.DESCRIPTOR.services_by_name["KvMeta"]
NODE = "node-kv"
_next = iter(range(1_000_000))
PLACEHOLDER = {
    "type": "ST_UNSPECIFIED",
    "spec_size": 1,
    "location_specs": [{"name": "value", "uri": ""}],
}


@pytest.fixture(scope="module", params=DOORS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MetadataProcess, ValkeyServer]]:
    root = tmp_path_factory.mktemp("kv")
    transport = "fast" if kind == "fast" else "grpcio"
    with valkey_server() as valkey:
        registry.publish(
            valkey.client(),
            version=1,
            changed=[storage(root / "nfs"), group(), instance(), value_instance(shards=2)],
        )
        options = {"KVCM_TRANSPORT": transport, "KVCM_MAX_KEYS": "50", "KVCM_NODE_ID": NODE}
        with metadata_process(valkey.url, root, **options) as process:
            yield process, valkey


@pytest.fixture
def kv(kind: str, server: tuple[MetadataProcess, ValkeyServer]) -> Iterator[Door]:
    with door_of(server[0], kind, KV, "/api/kv/") as door:
        yield door


@pytest.fixture
def v1(kind: str, server: tuple[MetadataProcess, ValkeyServer]) -> Iterator[Door]:
    with door_of(server[0], kind, V1, "/api/kv/v1/") as door:
        yield door


@pytest.fixture
def meta(kind: str, server: tuple[MetadataProcess, ValkeyServer]) -> Iterator[Door]:
    with door_of(server[0], kind) as door:
        yield door


@pytest.fixture
def keys() -> list[str]:
    """Three keys that no other test uses."""
    number = next(_next)
    return [f"{name}/ü {number}" for name in ("a", "b", "c")]


def of(instance_id: str = "values", **members: object) -> dict[str, object]:
    return {"trace_id": "t", "instance_id": instance_id, **members}


def test_a_put_and_a_get(kv: Door, keys: list[str]) -> None:
    started = kv.call("PutStart", of(keys=[*keys, keys[0]], write_timeout_seconds=30))
    assert (started.code, len(started.body["write_session_id"])) == ("OK", 32)
    assert started.body["key_mask"] == {"values": [False, False, False, True]}
    places = started.body["locations"]
    assert [place["type"] for place in places] == ["ST_NFS"] * 3
    assert [[spec["name"] for spec in place["location_specs"]] for place in places] == [["value"]] * 3
    assert all(urlsplit(place["location_specs"][0]["uri"]).query == f"size={VALUE_BYTES}" for place in places)
    assert kv.call("Get", of(keys=keys, query_type="QT_BATCH_GET")).body["locations"] == [PLACEHOLDER] * 3
    finish = {"write_session_id": started.body["write_session_id"], "locations": [places[2], places[0]]}
    assert kv.call("PutFinish", of(**finish)).code == "OK"
    asked = of(keys=[keys[2], "nothing", *keys], query_type=1, metas=[{"key": "user", "value": "x"}])
    found = kv.call("Get", asked)
    assert found.body["locations"] == [places[2], PLACEHOLDER, places[0], PLACEHOLDER, places[2]]
    assert found.body["header"]["request_id"].startswith("t_")
    again = kv.call("PutFinish", of(**finish))
    assert (again.code, again.message) == ("INTERNAL_ERROR", "write_session_id has been deleted")


def test_finish_without_locations_means_all(kv: Door, keys: list[str]) -> None:
    started = kv.call("PutStart", of(keys=keys))
    session = {"write_session_id": started.body["write_session_id"]}
    for bad in (
        PLACEHOLDER,
        {"type": "ST_NFS"},
        {"location_specs": [{"name": "value", "uri": "file://x/y"}]},
    ):
        refused = kv.call("PutFinish", of(**session, locations=[bad]))
        assert refused.code == "INVALID_ARGUMENT"
        assert refused.message.startswith("locations:")
    assert kv.call("PutFinish", of("model-a", **session)).code == "INVALID_ARGUMENT"
    assert kv.call("PutFinish", of(**session)).code == "OK"
    found = kv.call("Get", of(keys=keys, query_type=1))
    assert found.body["locations"] == started.body["locations"]


def test_removal(kv: Door, keys: list[str]) -> None:
    started = kv.call("PutStart", of(keys=keys))
    kv.call("PutFinish", of(write_session_id=started.body["write_session_id"]))
    assert kv.call("Remove", of(keys=[keys[1], "never"])).code == "OK"
    found = kv.call("Get", of(keys=keys, query_type=1))
    assert [place == PLACEHOLDER for place in found.body["locations"]] == [False, True, False]
    assert kv.call("Trim", of(strategy="TS_REMOVE_ALL_CACHE")).code == "OK"
    assert kv.call("Get", of(keys=keys, query_type=1)).body["locations"] == [PLACEHOLDER] * 3
    assert kv.call("Trim", of()).code == "INVALID_ARGUMENT"


def test_sizes_and_masks_of_our_own_package(v1: Door, kv: Door, keys: list[str]) -> None:
    started = v1.call("PutStart", of(keys=keys, value_sizes=[1, VALUE_BYTES, 300]))
    assert (started.code, started.body["key_mask"]) == ("OK", [False] * 3)
    queries = [urlsplit(place["location_specs"][0]["uri"]).query for place in started.body["locations"]]
    assert queries == ["size=1", f"size={VALUE_BYTES}", "size=300"]
    session = {"write_session_id": started.body["write_session_id"]}
    for bad in ([], [True] * 4):
        assert v1.call("PutFinish", of(**session, success_mask=bad)).code == "INVALID_ARGUMENT"
    assert v1.call("PutFinish", of(**session, success_mask=[True, False, True])).code == "OK"
    found = v1.call("Get", of(keys=[*keys, "nothing"]))
    assert found.body["hit_mask"] == [True, False, True, False]
    assert [place == PLACEHOLDER for place in found.body["locations"]] == [False, True, False, True]
    assert kv.call("Get", of(keys=keys, query_type=1)).body["locations"] == found.body["locations"][:3]
    over = v1.call("PutStart", of(keys=["x"], value_sizes=[VALUE_BYTES + 1]))
    assert (over.code, over.message.startswith("value_sizes:")) == ("INVALID_ARGUMENT", True)
    # A session of one service may be finished over the other.
    more = kv.call("PutStart", of(keys=[f"{keys[0]}+"]))
    finish = of(write_session_id=more.body["write_session_id"], success_mask=[True])
    assert v1.call("PutFinish", finish).code == "OK"


@pytest.mark.parametrize(
    ("rpc", "body", "code", "word"),
    [
        ("Get", of(query_type=1), "INVALID_ARGUMENT", "keys"),
        ("Get", of(keys=["a"]), "INVALID_ARGUMENT", "query_type"),
        ("Get", of(keys=["a"], query_type="QT_UNKNOWN"), "INVALID_ARGUMENT", "query_type"),
        ("Get", of(keys=[""], query_type=1), "INVALID_ARGUMENT", "1..1024"),
        ("PutStart", of(keys=["x" * 1025]), "INVALID_ARGUMENT", "1025 bytes"),
        ("PutStart", of(), "INVALID_ARGUMENT", "keys"),
        ("Remove", of(), "INVALID_ARGUMENT", "keys"),
        ("PutFinish", of(write_session_id="never"), "INTERNAL_ERROR", "write_session_id has been deleted"),
        ("PutFinish", of(write_session_id="a" * 32), "INTERNAL_ERROR", "write_session_id has been deleted"),
        ("Get", of("nobody", keys=["a"], query_type=1), "INSTANCE_NOT_EXIST", "nobody"),
        ("GetInstanceInfo", of(""), "INSTANCE_NOT_EXIST", ""),
        ("Get", of("model-a", keys=["a"], query_type=1), "INVALID_ARGUMENT", "holds blocks"),
        ("GetInstanceInfo", of("model-a"), "INVALID_ARGUMENT", "holds blocks"),
        ("Get", of(keys=["a"] * 51, query_type=1), "RESOURCE_EXHAUSTED", "keys: 51 are more than 50"),
    ],
)
def test_refusals(kv: Door, rpc: str, body: dict[str, object], code: str, word: str) -> None:
    answer = kv.call(rpc, body)
    assert answer.code == code
    assert word in answer.message


def test_blocks_of_a_key_value_instance_are_refused(meta: Door) -> None:
    for rpc, body in (
        ("GetCacheLocation", of(block_keys=[1], query_type=2)),
        ("StartWriteCache", of(block_keys=[1])),
        ("RemoveCache", of(block_keys=[1])),
    ):
        answer = meta.call(rpc, body)
        assert (answer.code, "keys and values" in answer.message) == ("INVALID_ARGUMENT", True)
    assert meta.call("GetInstanceInfo", of()).code == "OK"


def test_registration_again_is_answered_without_control(kv: Door) -> None:
    """Control is not running: what only it can decide is not ready. The package has no DUPLICATE_ENTITY."""
    info = kv.call("GetInstanceInfo", of())
    assert info.body["instance_group"] == "default"
    assert info.body["instance_info"]["instance_id"] == "values"
    for user_data in ("", "anything", f'{{"value_bytes": {VALUE_BYTES}}}'):
        answer = kv.call("RegisterInstance", of(instance_group="default", user_data=user_data))
        assert answer.code == "OK"
        assert '"global_unique_name":"nfs_01"' in answer.body["storage_configs"]
    other = of(instance_group="default", user_data='{"value_bytes": 5}')
    assert kv.call("RegisterInstance", other).code == "SERVICE_NOT_READY"
    bad = kv.call("RegisterInstance", of(instance_group="default", user_data='{"value_bytes": 0}'))
    assert (bad.code, "value_bytes" in bad.message) == ("INVALID_ARGUMENT", True)


def test_a_node_that_stands_down_is_not_ready(
    kv: Door, v1: Door, server: tuple[MetadataProcess, ValkeyServer]
) -> None:
    """The package has no SERVER_NOT_LEADER."""
    client = server[1].client()
    client.set(keyspace.demoted(NODE), "1", px=60_000)
    deadline = time.monotonic() + 40
    try:
        while (code := kv.call("GetInstanceInfo", of()).code) != "SERVICE_NOT_READY":
            assert (code, time.monotonic() < deadline) == ("OK", True)
        assert v1.call("Get", of(keys=["a"])).code == "SERVICE_NOT_READY"
    finally:
        client.delete(keyspace.demoted(NODE))
    while kv.call("GetInstanceInfo", of()).code != "OK":
        assert time.monotonic() < deadline


def test_spans_on_demand(kv: Door) -> None:
    answer = kv.call("GetInstanceInfo", {**of(), "trace_id": "x__kvcm_need_span_tracer"})
    assert '"name": "GetInstanceInfo"' in answer.body["header"]["tracer_result"]


def test_paths_over_http(server: tuple[MetadataProcess, ValkeyServer]) -> None:
    expected = {
        "/api/kv/registerInstance": 200,
        "/api/kv/getInstanceInfo": 200,
        "/api/kv/get": 200,
        "/api/kv/putStart": 200,
        "/api/kv/putFinish": 200,
        "/api/kv/remove": 200,
        "/api/kv/trim": 200,
        "/api/kv/v1/get": 200,
        "/api/kv/v1/putStart": 200,
        "/api/kv/v1/putFinish": 200,
        "/api/kv/v1/remove": 404,
        "/api/putStart": 404,
    }
    found = {}
    for path in expected:
        connection = http.client.HTTPConnection("127.0.0.1", server[0].http_port, timeout=30)
        connection.request("POST", path, b"{}")
        found[path] = connection.getresponse().status
        connection.close()
    assert found == expected
