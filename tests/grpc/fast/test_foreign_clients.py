"""Clients of other languages: C++ (what engines use), grpc-js and Go, built here from their packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.metadata_service.tls import ServerTls
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.metadata_process import metadata_process

from .packages import library, program
from .served import served

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "foreign"
PROTO = Path(__file__).parents[3] / "proto"
KEYS = 4096


def run(command: list[str], folder: Path, **variables: str) -> str:
    environ = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def blocks(stub) -> None:
    """Blocks 1,000,000 and following of model-a are served."""
    keys = [1_000_000 + number for number in range(KEYS)]
    for stop in range(512, KEYS + 1, 512):
        start = pb.StartWriteCacheRequest(instance_id="model-a", block_keys=keys[:stop])
        started = stub.StartWriteCache(start)
        request = pb.FinishWriteCacheRequest(
            instance_id="model-a",
            write_session_id=started.write_session_id,
            success_blocks=pb.BlockMask(offset=len(started.locations)),
        )
        assert stub.FinishWriteCache(request).header.status.code == pb.OK


@pytest.fixture(params=["plain", "tls"])
def target(request, process, server, files, tmp_path) -> Iterator[list[str]]:
    """Address of a process over the same index, and who signed its certificate where it speaks TLS."""
    if request.param == "plain":
        yield [process.rpc]
        return
    certificate, key = files
    variables = {"KVCM_TLS_CERT": str(certificate), "KVCM_TLS_KEY": str(key)}
    with metadata_process(server[1].url, tmp_path / "secure", **variables) as secure:
        yield [f"localhost:{secure.rpc_port}", str(certificate)]


def test_cpp(target, blocks, tmp_path):
    program("protoc", "protobuf-compiler")
    plugin = program("grpc_cpp_plugin", "protobuf-compiler-grpc")
    program("pkg-config", "pkg-config")
    library("include/grpcpp/grpcpp.h", "libgrpc++-dev")
    source = [f"-I{PROTO}", "meta_service.proto"]
    run(["protoc", *source, "--cpp_out=.", "--grpc_out=.", f"--plugin=protoc-gen-grpc={plugin}"], tmp_path)
    flags = run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], tmp_path).split()
    sources = [str(HERE / "client.cc"), "meta_service.pb.cc", "meta_service.grpc.pb.cc"]
    run([program("g++", "g++"), "-std=c++17", "-I.", *sources, "-o", "client", *flags], tmp_path)
    assert "all is well" in run([str(tmp_path / "client"), *target], tmp_path)


def test_grpc_js(target, blocks, tmp_path):
    shutil.copy(HERE / "client.js", tmp_path)
    packages = ["@grpc/grpc-js@1.14", "@grpc/proto-loader@0.8"]
    run([program("npm", "npm"), "install", "--silent", "--no-audit", "--no-fund", *packages], tmp_path)
    assert "all is well" in run(["node", "client.js", target[0], str(PROTO), *target[1:]], tmp_path)


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
def test_go(files, tmp_path, is_secure):
    library("share/gocode/src/google.golang.org/grpc", "golang-google-grpc-dev")
    shutil.copy(HERE / "client.go", tmp_path)
    go = program("go", "golang-go")
    variables = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(tmp_path / "cache")}
    run([go, "build", "-o", "client", "client.go"], tmp_path, **variables)
    certificate, key = map(str, files)
    with served(tls=ServerTls(certificate, key).context() if is_secure else None) as endpoint:
        target = [f"localhost:{endpoint.port}", certificate] if is_secure else [endpoint.address]
        assert "all is well" in run([str(tmp_path / "client"), *target], tmp_path)
