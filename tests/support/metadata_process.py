"""A real metadata process on free ports, without control: instances are published to its registry."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.platform_process import free_ports

ROOT = Path(__file__).parents[2]


@dataclass
class MetadataProcess:
    rpc_port: int
    http_port: int
    process: subprocess.Popen[bytes]

    @property
    def rpc(self) -> str:
        return f"127.0.0.1:{self.rpc_port}"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"


@contextmanager
def metadata_process(redis_url: str, data_dir: Path, **variables: str) -> Iterator[MetadataProcess]:
    names = ("KVCM_META_RPC_PORT", "KVCM_META_HTTP_PORT", "KVCM_ADMIN_RPC_PORT")
    ports = {name: str(port) for name, port in zip(names, free_ports(3), strict=True)} | variables
    environ = {
        **os.environ,
        "KVCM_DATA_DIR": str(data_dir),
        "KVCM_REDIS_URL": redis_url,
        "KVCM_LOG_LEVEL": "WARNING",
        **ports,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "kvcm_platform.metadata_service"], env=environ, cwd=ROOT
    )
    try:
        _wait_until_ready(int(ports["KVCM_META_HTTP_PORT"]), process)
        yield MetadataProcess(int(ports["KVCM_META_RPC_PORT"]), int(ports["KVCM_META_HTTP_PORT"]), process)
    finally:
        process.terminate()
        process.wait(40)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Its HTTP port is the last one that it opens; whether it speaks TLS does not matter here."""
    for _ in range(600):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        assert process.poll() is None, f"the metadata process ended with exit code {process.returncode}"
        time.sleep(0.1)
    raise AssertionError("the metadata process did not come up within a minute")
