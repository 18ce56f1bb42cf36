"""A file system that is really small: memory, mounted as a disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    path: Path

    @property
    def _filler(self) -> Path:
        return self.path / "filler"

    def fill(self) -> None:
        """Nothing that is there changes, and nothing more fits."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                while True:
                    try:
                        if file.write(b"x" * size) < size:
                            break
                    except OSError:
                        break

    def make_room(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path, *, megabytes: int = 4) -> Iterator[SmallDisk]:
    """Mounted at `folder`, which is made."""
    if os.geteuid():
        pytest.fail("mounting a file system of memory takes root")
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    subprocess.run(command, check=True, timeout=10)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=10)
