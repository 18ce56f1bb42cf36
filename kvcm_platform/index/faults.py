"""The faults that were asked for, in Redis: control writes them, every metadata process follows them.

A hash: name of the API -> number of the call that fails, empty for every call.
"""

from __future__ import annotations

from collections.abc import Sequence

import redis

from kvcm_platform.core.faults import Fault

from . import keyspace
from .connection import Commands


def inject(client: redis.Redis, api: str, fault: Fault) -> None:
    """Sets the fault of an API in place of the one that it has."""
    client.hset(keyspace.FAULTS, api, "" if fault.at_call is None else str(fault.at_call))


def has(client: redis.Redis, api: str) -> bool:
    return bool(client.hexists(keyspace.FAULTS, api))


def remove(client: redis.Redis, api: str) -> None:
    client.hdel(keyspace.FAULTS, api)


def clear(client: redis.Redis) -> None:
    client.delete(keyspace.FAULTS)


async def read(commands: Commands) -> dict[str, Fault]:
    """The faults by API."""
    flat: Sequence[bytes] = await commands.call("HGETALL", keyspace.FAULTS)
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return {api.decode(): Fault(int(number) if number else None) for api, number in pairs}
