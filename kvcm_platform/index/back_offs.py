"""How long storages are left alone that refused a deletion (core.deletion.BackOffs).

It is kept in the storage's own tag, so it outlives every worker and is known to all that delete from the
same index.
"""

from __future__ import annotations

from collections.abc import Iterable

import redis

from kvcm_platform.core.back_off import NO_BACK_OFF, BackOff

from . import keyspace
from .connection import Connection

_FAILURES, _UNTIL = "d:failures", "d:until"
"""Fields of a storage's base key."""


class RedisBackOffs:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, storage_number: int) -> BackOff:
        failures, until = await self._connection.call(
            "HMGET", keyspace.storage(storage_number), _FAILURES, _UNTIL
        )
        return _decoded(failures, until)

    async def write(self, storage_number: int, back_off: BackOff) -> None:
        name = keyspace.storage(storage_number)
        if back_off == NO_BACK_OFF:
            await self._connection.call("HDEL", name, _FAILURES, _UNTIL)
        else:
            fields = (_FAILURES, back_off.failures, _UNTIL, back_off.until_ms)
            await self._connection.call("HSET", name, *fields)


def back_offs(client: redis.Redis, storage_numbers: Iterable[int]) -> dict[int, BackOff]:
    """Of the storages and segments that have one. Raises redis.RedisError."""
    numbers = list(storage_numbers)
    pipeline = client.pipeline(transaction=False)
    for number in numbers:
        pipeline.hmget(keyspace.storage(number), _FAILURES, _UNTIL)
    found = {number: _decoded(*row) for number, row in zip(numbers, pipeline.execute(), strict=True)}
    return {number: one for number, one in found.items() if one != NO_BACK_OFF}


def _decoded(failures: bytes | None, until: bytes | None) -> BackOff:
    return NO_BACK_OFF if failures is None else BackOff(int(failures), int(until or 0))
