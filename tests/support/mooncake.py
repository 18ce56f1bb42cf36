"""A real Mooncake on loopback: a master with its HTTP servers, and processes that contribute memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.supervisor.tether import tethered

from .platform_process import free_ports

LEASE_SECONDS = 1.0
_START_SECONDS = 30.0


class MooncakeMaster:
    """One master; `start` again after `kill` gives one without any object, at the same addresses."""

    def __init__(
        self, folder: Path, *, lease_seconds: float = LEASE_SECONDS, segment_bytes: int = 128 << 20
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._lease_ms = round(lease_seconds * 1000)
        self.rpc_port, self.http_port, self.metadata_port = free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self._segments: list[subprocess.Popen[bytes]] = []

    @property
    def metadata(self) -> str:
        return f"http://127.0.0.1:{self.metadata_port}/metadata"

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    @property
    def spec(self) -> dict[str, Any]:
        return {
            "local_hostname": "127.0.0.1",
            "metadata_connstring": self.metadata,
            "protocol": "tcp",
            "rdma_device": "",
            "master_service_entry": f"127.0.0.1:{self.rpc_port}",
            "master_http_entry": self.http_address,
        }

    @staticmethod
    def storage_of(spec: dict[str, Any], name: str = "moon", number: int = 1) -> StorageEntry:
        return StorageEntry(name, number, StorageType.MOONCAKE, spec)

    def storage(self, name: str = "moon", number: int = 1, **changes: Any) -> StorageEntry:
        return self.storage_of({**self.spec, **changes}, name, number)

    def start(self) -> None:
        command = Path(sys.executable).with_name("mooncake_master")
        with (self._folder / "master.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(command),
                    "--rpc_address=127.0.0.1",
                    f"--rpc_port={self.rpc_port}",
                    "--rpc_thread_num=2",
                    "--metrics_host=127.0.0.1",
                    f"--metrics_port={self.http_port}",
                    "--enable_http_metadata_server=true",
                    "--http_metadata_server_host=127.0.0.1",
                    f"--http_metadata_server_port={self.metadata_port}",
                    f"--default_kv_lease_ttl={self._lease_ms}",
                    "--logtostderr=1",
                ],
                stdout=log,
                stderr=log,
                preexec_fn=tethered(signal.SIGKILL),
            )
        self._await(lambda: self._get("health") is not None, "the master answers")

    def add_segment(self, size_bytes: int = 0) -> None:
        """A process that lends memory to the store."""
        before = len(self.segments())
        with (self._folder / "segment.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SEGMENT, self.metadata, self.spec["master_service_entry"]]
                + [str(size_bytes or self._segment_bytes)],
                stdout=log,
                stderr=log,
                preexec_fn=tethered(signal.SIGKILL),
            )
        self._segments.append(process)
        self._await(lambda: len(self.segments()) > before, "the segment is mounted")

    def segments(self) -> list[str]:
        return (self._get("get_all_segments") or "").split()

    def object_keys(self) -> set[str]:
        return set((self._get("get_all_keys") or "").splitlines())

    def kill(self) -> None:
        """The master loses everything; segments come back to the next one by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """A new master without objects, with the segments mounted again."""
        self.kill()
        self.start()
        self._await(lambda: len(self.segments()) >= len(self._segments), "the segments are back")

    def kill_one_segment(self) -> None:
        """Its memory goes; the master notices after some ten seconds."""
        process = self._segments.pop()
        process.kill()
        process.wait()

    def kill_segments(self) -> None:
        while self._segments:
            self.kill_one_segment()

    def stop_answering(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        tasks = Path(f"/proc/{self._process.pid}/task")

        def is_stopped() -> bool:
            """Its threads stop one by one, each after what it is just doing."""
            states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
            return set(states) == {"T"}

        self._await(is_stopped, "the master is stopped")

    def go_on(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill_segments()
        if self._process is not None:
            self.kill()

    def __enter__(self) -> Self:
        self.start()
        self.add_segment()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://{self.http_address}/{path}", timeout=2) as answer:
                return str(answer.read().decode())
        except (OSError, urllib.error.URLError):
            return None

    def _await(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not condition():
            assert self._process is not None and self._process.poll() is None, "the master ended"
            assert time.monotonic() < deadline, f"not within {_START_SECONDS:g} s: {what}"
            time.sleep(0.05)


_SEGMENT = """
import signal, sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", sys.argv[1], int(sys.argv[3]), 16 << 20, "tcp", "", sys.argv[2])
if code:
    sys.exit(f"setup: {code}")
signal.pause()
"""


@pytest.fixture(scope="session")
def mooncake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MooncakeMaster]:
    """One store for the whole run; tests that hurt it start their own with `running_mooncake`."""
    with running_mooncake(tmp_path_factory.mktemp("mooncake")) as master:
        yield master


@contextmanager
def running_mooncake(folder: Path, **settings: Any) -> Iterator[MooncakeMaster]:
    """A master and one segment, until the block ends; settings of MooncakeMaster."""
    master = MooncakeMaster(folder, **settings)
    try:
        with master:
            yield master
    finally:
        master.close()
