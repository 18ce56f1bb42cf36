"""The data directory: made, proved writable, and claimed by one supervisor at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import CannotStart

_VALKEY_GONE_SECONDS = 10.0


def require_writable(data_dir: Path) -> None:
    """Make the directory and what belongs in it; raise `CannotStart` where that is refused."""
    try:
        (data_dir / "logs").mkdir(parents=True, exist_ok=True)
        (data_dir / "valkey").mkdir(mode=0o700, exist_ok=True)
        probe = data_dir / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CannotStart(
            f"The data directory {data_dir} cannot be written ({error.strerror}); "
            "set KVCM_DATA_DIR to a directory of your own."
        ) from error


@contextmanager
def claimed(data_dir: Path) -> Iterator[None]:
    """Hold the directory for this supervisor. The kernel drops the lock however the process ends."""
    path = data_dir / "supervisor.lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            raise CannotStart(
                f"Another supervisor (pid {pid}) runs on {data_dir}; stop it or set KVCM_DATA_DIR."
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def claim_valkey_files(data_dir: Path) -> int:
    """A locked descriptor that the Valkey child inherits and so holds for exactly as long as it lives.

    Valkey itself does not guard its files: two servers on one append-only file would destroy
    it. A server left by a supervisor that was killed gets time to write and go.
    """
    descriptor = os.open(data_dir / "valkey.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _VALKEY_GONE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise CannotStart(
                    f"A Valkey server of an earlier run still works on {data_dir / 'valkey'}; end it first."
                ) from None
            time.sleep(0.05)
