"""Clients of other languages: C++ (what engines use), grpc-js and Go, built here from their packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kvcm_platform.pb import meta_service_pb2 as pb

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


def test_cpp(process, blocks, tmp_path):
    program("protoc", "protobuf-compiler")
    plugin = program("grpc_cpp_plugin", "protobuf-compiler-grpc")
    program("pkg-config", "pkg-config")
    library("include/grpcpp/grpcpp.h", "libgrpc++-dev")
    source = [f"-I{PROTO}", "meta_service.proto"]
    run(["protoc", *source, "--cpp_out=.", "--grpc_out=.", f"--plugin=protoc-gen-grpc={plugin}"], tmp_path)
    flags = run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], tmp_path).split()
    sources = [str(HERE / "client.cc"), "meta_service.pb.cc", "meta_service.grpc.pb.cc"]
    run([program("g++", "g++"), "-std=c++17", "-I.", *sources, "-o", "client", *flags], tmp_path)
    assert "all is well" in run([str(tmp_path / "client"), process.rpc], tmp_path)


def test_grpc_js(process, blocks, tmp_path):
    shutil.copy(HERE / "client.js", tmp_path)
    packages = ["@grpc/grpc-js@1.14", "@grpc/proto-loader@0.8"]
    run([program("npm", "npm"), "install", "--silent", "--no-audit", "--no-fund", *packages], tmp_path)
    assert "all is well" in run(["node", "client.js", process.rpc, str(PROTO)], tmp_path)


def test_go(tmp_path):
    library("share/gocode/src/google.golang.org/grpc", "golang-google-grpc-dev")
    shutil.copy(HERE / "client.go", tmp_path)
    go = program("go", "golang-go")
    variables = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(tmp_path / "cache")}
    run([go, "build", "-o", "client", "client.go"], tmp_path, **variables)
    with served() as endpoint:
        assert "all is well" in run([str(tmp_path / "client"), endpoint.address], tmp_path)
