"""The platform's processes as heartbeats and supervisors report them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import redis

from kvcm_platform.index import heartbeat, keyspace

ROLES = ("web", "control", "metadata", "worker", "beat")
"""Each must have a living process for the platform to be ready."""
LOST_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process; `state` is ok, late (a few beats missed) or lost. Times are unix seconds."""

    role: str
    node: str
    pid: int
    state: str
    started_at: float
    seen_at: float
    restarts: int


@dataclass(frozen=True, slots=True)
class Supervised:
    """What a supervisor said of one child."""

    node: str
    role: str
    pid: int | None
    restarts: int


def read(client: redis.Redis, now: float) -> list[ProcessState]:
    children = []
    for value in client.hvals(keyspace.SUPERVISOR):
        child = json.loads(value)
        children.append(Supervised(child["node"], child["role"], child["pid"], child["restarts"]))
    return states(heartbeat.processes(client), children, now)


def states(
    beats: Iterable[heartbeat.Process], children: Iterable[Supervised], now: float
) -> list[ProcessState]:
    """Join both sources; a silent process whose supervisor already replaced it is left out."""
    by_pid: dict[tuple[str, int], Supervised] = {}
    waiting: set[tuple[str, str]] = set()
    supervised_nodes: set[str] = set()
    for child in children:
        supervised_nodes.add(child.node)
        if child.pid is None:
            waiting.add((child.node, child.role))
        else:
            by_pid[child.node, child.pid] = child
    found = []
    for beat in beats:
        child_of_beat = by_pid.get((beat.node, beat.pid))
        state = _state(now - beat.seen_at)
        is_replaced = (
            child_of_beat is None
            and beat.node in supervised_nodes
            and (beat.node, beat.role) not in waiting
            and state != "ok"
        )
        if not is_replaced:
            found.append(
                ProcessState(
                    role=beat.role,
                    node=beat.node,
                    pid=beat.pid,
                    state=state,
                    started_at=beat.started_at,
                    seen_at=beat.seen_at,
                    restarts=child_of_beat.restarts if child_of_beat else 0,
                )
            )
    return sorted(found, key=lambda process: (_place(process.role), process.node, process.pid))


def _place(role: str) -> int:
    return ROLES.index(role) if role in ROLES else len(ROLES)


def _state(silent_seconds: float) -> str:
    if silent_seconds < heartbeat.STALE_SECONDS:
        return "ok"
    return "late" if silent_seconds < LOST_SECONDS else "lost"


def missing_roles(processes: Iterable[ProcessState]) -> list[str]:
    """Roles without a process that was heard of within the last five seconds."""
    alive = {process.role for process in processes if process.state == "ok"}
    return [role for role in ROLES if role not in alive]
