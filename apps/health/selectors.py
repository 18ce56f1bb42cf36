"""Whether the platform can serve, component by component."""

from __future__ import annotations

import time
from dataclasses import dataclass

import redis
from django.db import DatabaseError, connection

from apps.common.redis_client import index_client
from apps.live.processes import ROLES, ProcessState, read


@dataclass(frozen=True, slots=True)
class Component:
    """One thing that must work; `processes` counts the living ones of a role."""

    name: str
    is_ok: bool
    message: str = ""
    processes: int | None = None


def readiness() -> list[Component]:
    """Database, Redis, and for each role whether a process was heard of within five seconds."""
    database = _database()
    try:
        client = index_client()
        client.ping()
        states = read(client, time.time())
    except (redis.RedisError, OSError) as error:
        unknown = [Component(role, False, "unknown: Redis does not answer", 0) for role in ROLES]
        return [database, Component("redis", False, str(error)), *unknown]
    return [database, Component("redis", True), *(_role(role, states) for role in ROLES)]


def _database() -> Component:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return Component("database", False, str(error))
    return Component("database", True)


def _role(role: str, states: list[ProcessState]) -> Component:
    alive = sum(state.role == role and state.state == "ok" for state in states)
    return Component(role, alive > 0, "" if alive else "no heartbeat within 5 s", alive)
