"""The same bytes to both transports: where grpcio answers with a status, the fast endpoint gives the same."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.unit.fast.wire import DATA, END_STREAM, frame, message

from .adversary import Adversary

SERVICE = "/kv_cache_manager.proto.meta.MetaService/"
REQUEST = pb.GetClusterInfoRequest(trace_id="t").SerializeToString()


@pytest.fixture(scope="module")
def oracle(server, tmp_path_factory) -> Iterator[MetadataProcess]:
    root = tmp_path_factory.mktemp("oracle")
    with metadata_process(server[1].url, root, KVCM_TRANSPORT="grpcio") as process:
        yield process


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (message(REQUEST), ()),
        (message(b""), ()),
        (message(REQUEST), ((":path", SERVICE + "Missing"),)),
        (message(REQUEST), ((":path", "/no.Service/GetClusterInfo"),)),
        (message(REQUEST), ((":path", "/"),)),
        (message(gzip.compress(REQUEST, mtime=0), 1), (("grpc-encoding", "gzip"),)),
        (message(REQUEST), (("grpc-encoding", "gzip"),)),
        (message(REQUEST), (("grpc-encoding", "identity"),)),
        (message(REQUEST), (("content-type", "application/grpc+proto"),)),
        (message(REQUEST), (("grpc-timeout", "5S"),)),
        (message(REQUEST), (("x-other-bin", "AAEC"), ("x-other", "a"))),
    ],
)
def test_the_status_is_the_same(process, oracle, body, changes):
    found = []
    for port in (process.rpc_port, oracle.rpc_port):
        with Adversary(port) as client:
            headers = dict([(":path", SERVICE + "GetClusterInfo"), *changes])
            client.send(client.caller.headers(1, *headers.items()) + frame(DATA, END_STREAM, 1, body))
            answer = client.answer(1)
            found.append((answer.headers[":status"], answer.status, bool(answer.body), answer.is_ended))
    assert found[0] == found[1]


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe"], ids=["no message", "no UTF-8"])
def test_what_is_no_message_is_internal(process, oracle, body):
    for port in (process.rpc_port, oracle.rpc_port):
        with Adversary(port) as client:
            headers = client.caller.headers(1, (":path", SERVICE + "GetClusterInfo"))
            client.send(headers + frame(DATA, END_STREAM, 1, message(body)))
            answer = client.answer(1)
            assert (answer.status, answer.text) == (13, "Exception deserializing request!")
