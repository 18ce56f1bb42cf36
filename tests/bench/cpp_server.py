"""The C++ server of `cpp/`: built from Debian's libgrpc++-dev where that is installed, and started."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from tests.support.platform_process import free_ports

from .report import Report

HERE = Path(__file__).parent / "cpp"
ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
NEEDED = {
    "g++": "g++",
    "protoc": "protobuf-compiler",
    "grpc_cpp_plugin": "protobuf-compiler-grpc",
    "pkg-config": "pkg-config",
}


def missing() -> str:
    """The Debian packages that are needed and not there."""
    packages = [package for name, package in NEEDED.items() if which(name) is None]
    if not Path("/usr/include/grpcpp/grpcpp.h").exists():
        packages.append("libgrpc++-dev")
    return " ".join(packages)


def built(report: Report) -> Path | None:
    """The program, built anew where its sources have changed; None, with a note, where tools are missing."""
    if packages := missing():
        report.note(f"No C++ baseline: it needs the Debian packages {packages}")
        return None
    sources = [HERE / "server.cc", PROTO / "meta_service.proto"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = ROOT / "build" / f"bench-cpp-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "server"
    return program if program.exists() else build(folder)


def build(folder: Path) -> Path:
    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    plugin = f"--plugin=protoc-gen-grpc={which('grpc_cpp_plugin')}"
    run("protoc", f"-I{PROTO}", "meta_service.proto", "--cpp_out=.", "--grpc_out=.", plugin)
    flags = run("pkg-config", "--cflags", "--libs", "grpc++", "protobuf").split()
    sources = [str(HERE / "server.cc"), "meta_service.pb.cc", "meta_service.grpc.pb.cc"]
    run("g++", "-std=c++17", "-O2", "-I.", *sources, "-o", "server", *flags)
    return folder / "server"


@contextmanager
def cpp_server(program: Path, first_key: int, blocks: int) -> Iterator[tuple[int, int]]:
    """(process id, port) of the server, holding so many blocks."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [program, str(port), str(first_key), str(blocks)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "serving"
        yield process.pid, port
    finally:
        process.kill()
        process.wait(10)
