"""Totals of what migrations did, for figures: they outlive the records of single runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import redis

from kvcm_platform.core.migration import Direction

from . import keyspace

if TYPE_CHECKING:
    from .connection import Connection

NAMES = ("copied_blocks", "copied_bytes", "there_blocks", "there_bytes", "skipped_blocks", "failed_blocks")


async def add(connection: Connection, group: str, direction: str, amounts: Mapping[str, int]) -> None:
    commands = [
        ("HINCRBY", keyspace.COPY_TOTALS, f"{group}|{direction}|{name}", amounts[name])
        for name in NAMES
        if amounts.get(name)
    ]
    if commands:
        await connection.pipeline(commands)


def totals(client: redis.Redis) -> dict[tuple[str, str], dict[str, int]]:
    """(group, direction) -> the totals by name. Raises redis.RedisError."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(NAMES, 0))
    for raw, value in client.hgetall(keyspace.COPY_TOTALS).items():
        group, direction, name = raw.decode().split("|")
        if name in NAMES:
            found[group, direction][name] = int(value)
    return dict(sorted(found.items()))


def forget(client: redis.Redis, group: str) -> None:
    """Of a group that is gone."""
    client.hdel(
        keyspace.COPY_TOTALS, *(f"{group}|{direction}|{name}" for direction in Direction for name in NAMES)
    )
