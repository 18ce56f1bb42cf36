"""Tells whether a storage works, within a time limit: a hung mount must not hang the checker."""

from __future__ import annotations

import errno
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import file_root
from kvcm_platform.storage import files
from kvcm_platform.storage.registry import is_supported

PROBE_SECONDS = 3.0
_CONTENT = b"kvcm probe\n"
_running: dict[str, threading.Thread] = {}
"""Probes by target: a thread stuck in a dead mount cannot be ended, so none is added to it."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`message` says why a probe failed; `latency_ms` is None where it did not end."""

    is_ok: bool
    message: str = ""
    latency_ms: float | None = None
    is_full: bool = False
    """It answers and can be read, but takes no new bytes: no space, quota used up, or read-only."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def probe(
    entry: StorageEntry, *, may_create_root: bool = False, seconds: float = PROBE_SECONDS
) -> ProbeResult:
    """Try the storage once. `may_create_root` makes a missing root folder first.

    The periodic checks never create it: below a mount that went away they would fill the local disk.
    """
    if is_supported(entry.type):
        return _within(seconds, file_root(entry), lambda: _probe_files(entry, may_create_root))
    return ProbeResult(False, f"storages of type {entry.type} cannot hold blocks in this version")


def _within(seconds: float, target: str, work: Callable[[], None]) -> ProbeResult:
    outcome: list[OSError | None] = []

    def run() -> None:
        try:
            work()
        except OSError as error:
            outcome.append(error)
        else:
            outcome.append(None)

    with _lock:
        stuck = _running.get(target)
        if stuck is not None and stuck.is_alive():
            return ProbeResult(False, "an earlier check of it still hangs")
        thread = _running[target] = threading.Thread(target=run, name=f"probe {target}", daemon=True)
        started = time.monotonic()
        thread.start()
    thread.join(seconds)
    if not outcome:
        return ProbeResult(False, f"no answer within {seconds:g} s")
    latency_ms = round((time.monotonic() - started) * 1000, 3)
    error = outcome[0]
    if error is None:
        return ProbeResult(True, "", latency_ms)
    is_full = error.errno in _FULL
    return ProbeResult(is_full, f"{target}: {error.strerror or error}", latency_ms, is_full)


def _probe_files(entry: StorageEntry, may_create_root: bool) -> None:
    root = Path(file_root(entry))
    if may_create_root:
        if entry.type is not StorageType.NFS and not os.path.isdir(entry.spec["mountpoint"]):
            raise FileNotFoundError(2, "the mountpoint does not exist", entry.spec["mountpoint"])
        root.mkdir(parents=True, exist_ok=True)
        files.mark(str(root))
    files.require_mark(str(root))
    path = root / f".kvcm-probe-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with open(path, "xb") as file:
            file.write(_CONTENT)
            file.flush()
            os.fsync(file.fileno())
        if path.read_bytes() != _CONTENT:
            raise OSError(5, "what was written reads back differently", str(path))
    finally:
        path.unlink(missing_ok=True)
