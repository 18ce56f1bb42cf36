"""Whether the configured ports are free and, where the kernel tells, who holds one that is not."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from kvcm_platform.settings.env import DEBUG_PORT_OFFSET, Env

from .errors import CannotStart

PORT_VARIABLES = (
    "KVCM_WEB_PORT",
    "KVCM_META_RPC_PORT",
    "KVCM_META_HTTP_PORT",
    "KVCM_ADMIN_RPC_PORT",
    "KVCM_ADMIN_HTTP_PORT",
)

_LISTEN = "0A"
_RELEASE_SECONDS = 1.5
"""The children of a supervisor that was killed a moment ago need a little time to be gone."""


def require_free_ports(env: Env) -> None:
    """Raise `CannotStart` naming the first port that is taken, its variable and its holder."""
    seen: dict[int, str] = {}
    for variable in PORT_VARIABLES:
        port = env[variable]
        if port in seen:
            raise CannotStart(f"{variable} and {seen[port]} are both {port}; give each its own port.")
        seen[port] = variable
    if env["KVCM_DEBUG_SERVICE"]:
        port = env.debug_http_port
        if port in seen:
            raise CannotStart(
                f"KVCM_DEBUG_SERVICE needs port {port}, KVCM_META_HTTP_PORT + {DEBUG_PORT_OFFSET}, which"
                f" {seen[port]} has; give that another one."
            )
        seen[port] = "KVCM_META_HTTP_PORT"
    deadline = time.monotonic() + _RELEASE_SECONDS
    for port, variable in seen.items():
        while (problem := _bind_problem(env.bind, port)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if problem:
            holder = holder_of(port)
            if holder:
                raise CannotStart(
                    f"Port {port} is taken by {holder}; stop that process or set {variable} to a free port."
                )
            raise CannotStart(f"Port {port} cannot be used ({problem}); set {variable} to a free port.")


def _bind_problem(host: str, port: int) -> str:
    """Why nothing can listen on the port; empty when it can.

    Without SO_REUSEPORT on purpose: metadata processes share their ports, and a second
    platform would otherwise join them unnoticed.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            return os.strerror(error.errno or 0)
    return ""


def holder_of(port: int) -> str:
    """ "`name` (pid n)" of the process that listens on the port; empty where /proc does not tell."""
    inodes = _listening_inodes(port)
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(descriptor) in wanted:
                        return f"`{_command_of(process)}` (pid {process.name})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(fields[9])
    return inodes


def _command_of(process: Path) -> str:
    words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return words[:77] + "..." if len(words) > 80 else words
