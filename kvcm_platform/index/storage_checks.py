"""Requests to look whether the objects of a storage's blocks are still there, and how far they have come.

A storage whose server lost its memory, or that drops objects by itself, leaves blocks behind that
look fine. The duties (duties/clearing.py) go through every shard once a request. Requests of a
storage replace each other; ids rise with time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import redis

from . import keyspace
from .connection import Connection

_PARTS = (":lost", ":left", ":waiting")
"""What is counted anew with each request."""


@dataclass(frozen=True, slots=True)
class CheckState:
    """`lost` = locations found without their object since the request; `left` = shards still to be seen."""

    is_running: bool = False
    lost: int = 0
    left: int = 0
    waiting: str = ""
    """Why it does not get on; empty when it does."""
    ended_ms: int = 0
    """When the last one ended, by the index's clock; 0 = none did, as far as known."""


def request_check(client: redis.Redis, numbers: Iterable[int]) -> None:
    """Have all blocks on these numbers of storages or segments looked at. Raises redis.RedisError."""
    seconds, microseconds = client.time()
    for number in numbers:
        client.hset(keyspace.STORAGE_CHECKS, f"{number}", seconds * 1_000_000 + microseconds)
        client.hdel(keyspace.STORAGE_CHECKED, *(f"{number}{part}" for part in _PARTS))


def forget_checks(client: redis.Redis, number: int) -> None:
    """Drop all that is kept of a number that is never given again. Raises redis.RedisError."""
    client.hdel(keyspace.STORAGE_CHECKS, f"{number}")
    client.hdel(keyspace.STORAGE_CHECKED, *(f"{number}{part}" for part in ("", *_PARTS, ":ended")))


def check_states(client: redis.Redis, numbers: Iterable[int]) -> dict[int, CheckState]:
    """The state of the last request of each number that ever had one. Raises redis.RedisError."""
    wanted = client.hgetall(keyspace.STORAGE_CHECKS)
    seen = client.hgetall(keyspace.STORAGE_CHECKED)
    return {
        number: CheckState(
            is_running=int(wanted[field]) > int(seen.get(field, 0)),
            lost=int(seen.get(field + b":lost", 0)),
            left=int(seen.get(field + b":left", 0)),
            waiting=seen.get(field + b":waiting", b"").decode(),
            ended_ms=int(seen.get(field + b":ended", 0)),
        )
        for number in numbers
        if (field := b"%d" % number) in wanted
    }


def outstanding(wanted: Mapping[bytes, bytes], seen: Mapping[bytes, bytes]) -> dict[int, int]:
    """Number -> request id of the checks that are not over yet, from the two hashes."""
    return {int(n): int(wish) for n, wish in wanted.items() if int(wish) > int(seen.get(n, 0))}


class CheckBook:
    """The requests as the duties see them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def outstanding(self) -> dict[int, int]:
        wanted, seen = await self._connection.pipeline(
            [("HGETALL", keyspace.STORAGE_CHECKS), ("HGETALL", keyspace.STORAGE_CHECKED)]
        )
        return outstanding(_pairs(wanted), _pairs(seen))

    async def note_lost(self, number: int, count: int) -> None:
        await self._connection.call("HINCRBY", keyspace.STORAGE_CHECKED, f"{number}:lost", count)

    async def note_left(self, number: int, left: int, waiting: str) -> None:
        await self._connection.call(
            *("HSET", keyspace.STORAGE_CHECKED, f"{number}:left", left, f"{number}:waiting", waiting)
        )

    async def over(self, number: int, request: int, now_ms: int) -> None:
        """Nothing is left of this request; one that came since is not touched."""
        parts = {"": request, ":left": 0, ":waiting": "", ":ended": now_ms}
        pairs = [each for part, value in parts.items() for each in (f"{number}{part}", value)]
        await self._connection.call("HSET", keyspace.STORAGE_CHECKED, *pairs)


def _pairs(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
