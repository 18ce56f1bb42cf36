"""`vcns_hf3fs`: a mounted 3FS whose service is named; the mount is good only while that answers."""

from __future__ import annotations

import socket
import time

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import file_root

from .backend import ProbeOrder, ProbeResult, StorageKind
from .mounted import CAPABILITIES, MountedBackend, probe_mountpoint
from .tidy import tidy

CONNECT_SHARE = 0.5
"""Of the time of a probe, for the connection: the rest is the directory's."""


def probe(entry: StorageEntry, order: ProbeOrder) -> ProbeResult:
    """The directory, after `remote_host:remote_port` took a TCP connection. Raises OSError."""
    _connect(str(entry.spec["remote_host"]), int(entry.spec["remote_port"]), order.seconds * CONNECT_SHARE)
    return probe_mountpoint(entry, order)


def _connect(host: str, port: int, seconds: float) -> None:
    """Tries all addresses of the host within the time. Raises OSError that names them."""
    deadline = time.monotonic() + seconds
    reason: OSError | None = None
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, f"{host}: {error.strerror or error}") from error
    for family, kind, protocol, _, address in addresses:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        with socket.socket(family, kind, protocol) as connection:
            connection.settimeout(left)
            try:
                connection.connect(address)
            except OSError as error:
                reason = error
            else:
                return
    why = (reason.strerror or str(reason)) if reason else "no answer"
    raise OSError(reason.errno if reason else None, f"{host}:{port} does not take a connection: {why}")


KIND = StorageKind(CAPABILITIES, MountedBackend, probe, file_root, tidy)
