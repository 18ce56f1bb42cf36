"""Signs of life: each process renews a field of `kvcm:processes` every second."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis

from . import blocking, functions, keyspace

STALE_SECONDS = 5.0
FORGET_SECONDS = 60.0
_STARTED_AT = time.time()


@dataclass(frozen=True, slots=True)
class Process:
    """What one process last said of itself. Times are unix seconds."""

    role: str
    node: str
    pid: int
    started_at: float
    seen_at: float
    detail: Mapping[str, Any]

    @property
    def field(self) -> str:
        return f"{self.role}:{self.node}:{self.pid}"


def command(role: str, node: str, detail: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The Redis command of one beat, for clients of any kind."""
    beat = {
        "role": role,
        "node": node,
        "pid": os.getpid(),
        "started_at": _STARTED_AT,
        "seen_at": time.time(),
        "detail": {"functions": functions.version(), **(detail or {})},
    }
    return ("HSET", keyspace.PROCESSES, f"{role}:{node}:{os.getpid()}", json.dumps(beat))


def beat(client: redis.Redis, role: str, node: str, detail: Mapping[str, Any] | None = None) -> None:
    client.execute_command(*command(role, node, detail))


def leave(client: redis.Redis, role: str, node: str) -> None:
    """An orderly stop takes the process off the list at once."""
    client.hdel(keyspace.PROCESSES, f"{role}:{node}:{os.getpid()}")


def processes(client: redis.Redis) -> list[Process]:
    """All processes heard of, oldest first; a field that cannot be read is left out."""
    found = []
    for raw in client.hvals(keyspace.PROCESSES):
        try:
            found.append(Process(**json.loads(raw)))
        except (ValueError, TypeError):
            continue
    return sorted(found, key=lambda process: (process.role, process.started_at))


def forget_lost(client: redis.Redis) -> int:
    """Removes processes that were silent for FORGET_SECONDS; returns their number."""
    lost = [p.field for p in processes(client) if time.time() - p.seen_at > FORGET_SECONDS]
    return int(client.hdel(keyspace.PROCESSES, *lost)) if lost else 0


def forget_functions(client: redis.Redis) -> int:
    """Removes function libraries of versions that no process of the list uses; returns their number.

    One that a process loads just before its first heartbeat is loaded again when it is missed.
    """
    in_use = {str(process.detail.get("functions", "")) for process in processes(client)}
    removed = 0
    for master in blocking.masters(client):
        reply = master.execute_command("FUNCTION LIST", "LIBRARYNAME", f"{functions.PREFIX}*")
        for library in functions.stale(map(_library_name, reply), in_use):
            master.function_delete(library)
            removed += 1
    return removed


def _library_name(described: Any) -> str:
    fields = (
        described if isinstance(described, dict) else dict(zip(described[::2], described[1::2], strict=True))
    )
    name = fields.get(b"library_name") or fields.get("library_name") or b""
    return name.decode() if isinstance(name, bytes) else str(name)
