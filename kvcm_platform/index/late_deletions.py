"""Storages on which due deletions cannot be carried out, since when and why.

A deletion that fails is due again a little later, so the lists themselves do not show for how long
it waits. What a crash leaves here is put right by the next deletion on that storage.
"""

from __future__ import annotations

import json
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


UNREADABLE_KEPT_MS = 1_800_000
"""An entry that nobody met for so long is gone."""
MOST_UNREADABLE = 1000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry of a list of deletions that makes no sense. `name`: its shard and member; `at` in unix ms."""

    name: str
    at: int
    why: str


async def unreadable_note(connection: Connection, base: str, found: Mapping[bytes, str]) -> None:
    """Take down that these members of a shard's list were met, and why. Raises redis.RedisError."""
    now = round(time.time() * 1000)
    name = keyspace.UNREADABLE_DELETIONS
    flat = await connection.call("HGETALL", name)
    known = dict(zip(flat[::2], flat[1::2], strict=True))
    old = [field for field, raw in known.items() if json.loads(raw)["at"] < now - UNREADABLE_KEPT_MS]
    if old:
        await connection.call("HDEL", name, *old)
    rows = {f"{base}|{member.hex()}".encode(): why for member, why in found.items()}
    news = [field for field in rows if field not in known]
    for field in news[max(0, MOST_UNREADABLE - len(known) + len(old)) :]:
        del rows[field]
    parts = [part for field, why in rows.items() for part in (field, json.dumps({"at": now, "why": why}))]
    if parts:
        await connection.call("HSET", name, *parts)


def unreadable(client: redis.Redis) -> list[Unreadable]:
    """Those met lately, the newest last. Raises redis.RedisError."""
    since = time.time() * 1000 - UNREADABLE_KEPT_MS
    rows = client.hgetall(keyspace.UNREADABLE_DELETIONS)
    found = [Unreadable(name.decode(), **json.loads(raw)) for name, raw in rows.items()]
    return sorted((one for one in found if one.at >= since), key=lambda one: one.at)
