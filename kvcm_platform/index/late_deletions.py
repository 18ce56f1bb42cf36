"""Storages on which due deletions cannot be carried out, since when and why.

A deletion that fails is due again a little later, so the lists themselves do not show for how long
it waits. What a crash leaves here is put right by the next deletion on that storage.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import redis

from . import keyspace
from .connection import Connection


@dataclass(frozen=True, slots=True)
class LateDeletions:
    """`since` = unix seconds of the first that failed; none succeeded since."""

    since: float
    why: str


async def late_note(
    connection: Connection, *, refused: Mapping[int, str], deleted: Mapping[int, int]
) -> None:
    """Take over what a run met: the storages that refused a deletion, and those that carried one out.

    A storage that did both is late: something waits.
    """
    now = round(time.time() * 1000)
    commands: list[tuple[str | int, ...]] = []
    for number, why in refused.items():
        commands.append(("HSETNX", keyspace.LATE_DELETIONS, f"{number}:since", now))
        commands.append(("HSET", keyspace.LATE_DELETIONS, f"{number}:why", why))
    for number in sorted(deleted.keys() - refused.keys()):
        commands.append(("HDEL", keyspace.LATE_DELETIONS, f"{number}:since", f"{number}:why"))
    if commands:
        await connection.pipeline(commands)


def late_deletions(client: redis.Redis) -> dict[int, LateDeletions]:
    """By number of the storage or segment. Raises redis.RedisError."""
    fields = client.hgetall(keyspace.LATE_DELETIONS)
    found = {}
    for name, value in fields.items():
        number, _, what = name.decode().partition(":")
        if what == "since":
            why = fields.get(f"{number}:why".encode(), b"").decode()
            found[int(number)] = LateDeletions(int(value) / 1000, why)
    return found
