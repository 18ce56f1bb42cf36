"""A mounted directory that really hangs: served by a process that can be stopped (bindfs over FUSE)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.platform_process import wait_for


@dataclass
class HangingMount:
    """`path` shows what is in `source`, which stays reachable while the mount hangs."""

    path: Path
    source: Path
    process: subprocess.Popen[bytes]

    def hang(self) -> None:
        """From now on nothing that touches the mount returns."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def take_away(self) -> None:
        """As if unmounted: an empty folder is left in its place."""
        subprocess.run(["umount", "-l", str(self.path)], check=True, timeout=10)

    def bring_back(self) -> None:
        self.end()
        self.process = _serve(self.source, self.path)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGCONT)
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", str(self.path)], check=True, timeout=10)
        self.process.terminate()
        self.process.wait(40)


@contextmanager
def hanging_mount(folder: Path) -> Iterator[HangingMount]:
    """Mounted below `folder`; needs root or a fusermount that is allowed."""
    source, path = folder / "source", folder / "mount"
    source.mkdir(parents=True)
    path.mkdir()
    mount = HangingMount(path, source, _serve(source, path))
    try:
        yield mount
    finally:
        mount.end()


def _serve(source: Path, path: Path) -> subprocess.Popen[bytes]:
    if shutil.which("bindfs") is None:
        pytest.fail("bindfs is missing; `make test` installs it")
    process = subprocess.Popen(["bindfs", "-f", "-o", "nonempty", str(source), str(path)])
    wait_for(lambda: os.path.ismount(path), 40, f"{path} is mounted")
    return process
