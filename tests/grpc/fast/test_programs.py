"""Programs that are not gRPC clients of this library: curl and h2load."""

from __future__ import annotations

import re
import subprocess

import pytest

from kvcm_platform.pb import meta_service_pb2 as pb
from tests.unit.fast.wire import message

from .packages import program
from .served import PATH, served

METHOD = "/kv_cache_manager.proto.meta.MetaService/GetClusterInfo"


def curl(url: str, *options: str, body: bytes = b"") -> tuple[str, bytes]:
    """(status line and headers with trailers, body)."""
    run = subprocess.run(
        [
            program("curl", "curl"),
            "-sSm",
            "10",
            "--http2-prior-knowledge",
            "-D",
            "/dev/stderr",
            *options,
            url,
        ],
        input=body,
        capture_output=True,
        check=True,
    )
    return run.stderr.decode(), run.stdout


def test_curl_calls(process):
    body = message(pb.GetClusterInfoRequest(trace_id="curl").SerializeToString())
    headers, answer = curl(
        f"http://{process.rpc}{METHOD}",
        *("-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", "@-"),
        body=body,
    )
    assert headers.startswith("HTTP/2 200")
    assert "grpc-status: 0" in headers
    assert pb.GetClusterInfoResponse.FromString(answer[5:]).header.status.code == pb.OK


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], "405"),
        (["-X", "PUT", "-d", "x"], "405"),
        (["-d", "x"], "415"),
        (["-H", "content-type: application/json", "-d", "{}"], "415"),
    ],
)
def test_curl_is_told_what_is_wrong(process, options, status):
    headers, body = curl(f"http://{process.rpc}{METHOD}", *options)
    assert headers.startswith(f"HTTP/2 {status}")
    assert body == b""


@pytest.mark.parametrize("kind", ["uvloop", "asyncio"])
@pytest.mark.parametrize(("clients", "streams"), [(1, 1), (16, 1), (4, 100)])
def test_h2load(kind, clients, streams, tmp_path):
    tool = program("h2load", "nghttp2-client")
    body = tmp_path / "body"
    with served(kind) as endpoint:
        for name, sent, calls in (("Call", b"x" * 1000, 3000), ("Large", b"200000", 200)):
            body.write_bytes(message(sent))
            command = [tool, "-n", str(calls), "-c", str(clients), "-m", str(streams), "-d", str(body)]
            headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
            run = subprocess.run(
                [*command, *headers, f"http://{endpoint.address}{PATH}{name}"],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert re.search(rf"{calls} succeeded, 0 failed, 0 errored, 0 timeout", run.stdout), run.stdout
            assert f"{calls} 2xx" in run.stdout


def test_h2load_with_windows_of_a_kilobyte(tmp_path):
    body = tmp_path / "body"
    body.write_bytes(message(b"100000"))
    with served() as endpoint:
        windows = ["-w", "10", "-W", "16"]
        load = ["-n", "50", "-c", "2", "-m", "10", "-d", str(body), "-H", "content-type: application/grpc"]
        run = subprocess.run(
            [program("h2load", "nghttp2-client"), *windows, *load, f"http://{endpoint.address}{PATH}Large"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert "50 succeeded, 0 failed, 0 errored, 0 timeout" in run.stdout, run.stdout
