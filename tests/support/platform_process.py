"""Starts `manage.py up` (or a stand-in for it) as a process of its own and watches what it leaves."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kvcm_platform.supervisor.ports import PORT_VARIABLES

ROOT = Path(__file__).resolve().parents[2]


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def wait_for(condition: object, seconds: float, what: str) -> object:
    """Poll `condition` until it gives something true; fail with `what` when it does not in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():  # type: ignore[operator]
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def get_status(url: str) -> int | None:
    """HTTP status of an address; None where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


class PlatformProcess:
    """One running supervisor, its output line by line, and its data directory."""

    def __init__(self, command: Sequence[str], data_dir: Path, **variables: str) -> None:
        self.data_dir = data_dir
        ports = dict(zip(PORT_VARIABLES, free_ports(len(PORT_VARIABLES)), strict=True))
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("KVCM_", "DJANGO_"))
        }
        self.environment = {
            **clean,
            "KVCM_DATA_DIR": str(data_dir),
            "PYTHONPATH": str(ROOT),
            **{name: str(port) for name, port in ports.items()},
            **variables,
        }
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.output.append(line.rstrip("\n"))
            self._lines.put(line)
        self._lines.put(None)

    def port(self, variable: str) -> int:
        return int(self.environment[variable])

    @property
    def text(self) -> str:
        return "\n".join(self.output)

    def wait_for_line(self, part: str, seconds: float) -> str:
        """The first line not yet looked at that contains `part`."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                line = self._lines.get(timeout=max(0.01, left))
            except queue.Empty:
                line = ""
            if line is None or (not line and left <= 0):
                raise AssertionError(f"no line with {part!r} within {seconds} s:\n{self.text}")
            if part in line:
                return line.rstrip("\n")

    def wait_until_ready(self, seconds: float = 180.0) -> None:
        self.wait_for_line("KVCM Platform is ready", seconds)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 40.0) -> int:
        """Send the signal, wait for the end, return the exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def others(self) -> dict[int, str]:
        """Every other living process that was started for this data directory: pid -> command."""
        marker = f"KVCM_DATA_DIR={self.data_dir}".encode()
        # Valkey overwrites its environment's memory, but was started with a file of this directory.
        configuration = f"{self.data_dir}/valkey.conf"
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                pid = int(folder.name)
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                is_ours = marker in (folder / "environ").read_bytes().split(b"\0") or configuration in command
                if is_ours and command and pid not in (self.process.pid, os.getpid()):
                    found[pid] = command
        return found

    def end(self) -> None:
        """Leave nothing behind, whatever state the test left it in."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.others():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def short_data_dir() -> Iterator[Path]:
    """A data directory whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="kvcm-t-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
