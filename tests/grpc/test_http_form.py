"""The compatible HTTP form as an unmodified protobuf-JSON client meets it (WIRE.md 1.3, 8.1-8.2)."""

from __future__ import annotations

import http.client
import json

import pytest


def post(process, path: str, body: object, headers: dict[str, str] | None = None):
    """(status, content type, parsed body). `body` may be raw bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", process.http_port, timeout=30)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", f"/api/{path}", data, {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return (
        response.status,
        response.getheader("Content-Type"),
        json.loads(text)
        if response.getheader("Content-Type") == "application/json" or text == b"{}"
        else None,
    )


def test_defaults_int64_and_empty_lists_are_printed(process):
    status, kind, body = post(process, "getInstanceInfo", {"trace_id": "t", "instance_id": "two"})
    assert (status, kind) == (200, "application/json")
    assert body["header"]["status"] == {"code": "OK", "message": ""}
    info = body["instance_info"]
    assert info["location_spec_infos"][0] == {"name": "tp0", "size": "64"}
    assert info["block_size"] == 4
    assert info["model_deployment"]["use_mla"] is False
    assert info["model_deployment"]["lora_name"] == ""
    assert info["default_query_type"] == "QT_UNSPECIFIED"
    _, _, body = post(
        process, "getCacheLocation", {"instance_id": "model-a", "query_type": 2, "block_keys": [987654]}
    )
    assert body["locations"] == []


@pytest.mark.parametrize(
    "request_body",
    [
        {"instance_id": "model-a", "query_type": "QT_BATCH_GET", "block_keys": ["-5", 6]},
        {"instanceId": "model-a", "queryType": 1, "blockKeys": [-5, "6"]},
        {"instance_id": "model-a", "query_type": 1, "block_keys": ["-5", "6"], "unknown": {"a": [1]}},
    ],
)
def test_both_spellings_numbers_as_strings_and_unknown_members(process, request_body):
    status, _, body = post(process, "getCacheLocation", request_body)
    assert status == 200
    assert body["header"]["status"]["code"] == "OK"
    assert (
        body["locations"]
        == [{"type": "ST_UNSPECIFIED", "spec_size": 1, "location_specs": [{"name": "tp0", "uri": ""}]}] * 2
    )


@pytest.mark.parametrize("body", [b"{bad", b"", b"[]", b'"x"', b"\xff\xfe", b'{"block_keys": ["x"]}'])
def test_bad_json_is_400_and_an_empty_object(process, body):
    assert post(process, "getCacheLocation", body)[::2] == (400, {})


def test_an_unknown_enum_name_counts_as_absent(process):
    _, _, body = post(
        process, "getCacheLocation", {"instance_id": "model-a", "query_type": "QT_NEW", "block_keys": [1]}
    )
    assert body["header"]["status"]["code"] == "INVALID_ARGUMENT"
    assert "query_type" in body["header"]["status"]["message"]


def test_write_cycle_of_the_vllm_connector(process):
    """Token ids only, the answer's mask tested by presence, and a Finish whose inner member is unknown."""
    tokens = list(range(1000, 1010))  # two full blocks of four and a tail
    request = {
        "trace_id": "r_1",
        "instance_id": "model-a",
        "block_keys": [],
        "token_ids": tokens,
        "write_timeout_seconds": 30,
    }
    _, _, started = post(process, "startWriteCache", request)
    assert started["header"]["status"]["code"] == "OK"
    assert started["block_mask"] == {"offset": 0}
    assert len(started["locations"]) == 2
    finish = {"instance_id": "model-a", "write_session_id": started["write_session_id"]}
    _, _, done = post(
        process, "finishWriteCache", {**finish, "success_blocks": {"bool_masks": {"values": [True, True]}}}
    )
    assert done["header"]["status"]["code"] == "OK"
    _, _, match = post(
        process,
        "getCacheLocation",
        {
            "instance_id": "model-a",
            "query_type": "QT_PREFIX_MATCH",
            "token_ids": tokens,
            "block_mask": {"offset": 1},
        },
    )
    assert match["locations"] == started["locations"][1:]
    _, _, again = post(process, "startWriteCache", request)
    assert (again["block_mask"], again["locations"]) == ({"offset": 2}, [])
    finish = {"instance_id": "model-a", "write_session_id": again["write_session_id"]}
    _, _, done = post(
        process, "finishWriteCache", {**finish, "success_blocks": {"bool_masks": {"offset": 0}}}
    )
    assert done["header"]["status"]["code"] == "OK"


def test_bool_masks_in_the_answer(process):
    _, _, first = post(process, "startWriteCache", {"instance_id": "model-a", "block_keys": [700002]})
    _, _, second = post(
        process, "startWriteCache", {"instance_id": "model-a", "block_keys": [700001, 700002]}
    )
    assert second["block_mask"] == {"bool_masks": {"values": [False, True]}}
    assert "offset" not in second["block_mask"]
    assert first["block_mask"] == {"offset": 0}


def test_errors_are_200_with_the_error_in_the_body(process):
    status, _, body = post(process, "getCacheMeta", {"instance_id": "nobody", "block_keys": [1]})
    assert status == 200
    assert body["header"]["status"]["code"] == "INSTANCE_NOT_EXIST"
    assert (body["locations"], body["metas"]) == ([], [])


def test_only_known_paths_and_post(process):
    assert post(process, "nothing", {})[0] == 404
    connection = http.client.HTTPConnection("127.0.0.1", process.http_port, timeout=30)
    connection.request("GET", "/api/getClusterInfo")
    assert connection.getresponse().status == 405
    connection.close()


def test_cluster_info_for_readiness_polls(process):
    status, _, body = post(process, "getClusterInfo", {})
    assert status == 200
    assert body["leader_endpoint"]["meta_http_port"] == process.http_port
    assert body["leader_endpoint"]["host"]


def test_large_bodies_are_refused_and_large_ones_below_the_limit_work(process):
    keys = [str(key) for key in range(10**12, 10**12 + 60_000)]
    status, _, body = post(
        process, "getCacheLocation", {"instance_id": "model-a", "query_type": 2, "block_keys": keys}
    )
    assert (status, body["locations"]) == (200, [])
    too_many = [str(key) for key in range(70_000)]
    status, _, _ = post(
        process, "getCacheLocation", {"instance_id": "model-a", "query_type": 2, "block_keys": too_many}
    )
    assert status == 413
