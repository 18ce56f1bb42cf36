"""Pushes the usage of shards to their groups, off the call path (DESIGN 4.1).

The truth is in the shard's own tag. A push carries the whole vector with its (generation,
sequence), so repeating or reordering pushes is harmless, and closes the reservations of the
sessions whose blocks the vector contains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
from redis.exceptions import RedisError

from . import keyspace
from .connection import Commands, Connection, each_to_its_end
from .shards import ShardRef
from .stats import parse_usage
from .waking import Waker

MARK_REACHED = 2


def as_dict(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def push_command(
    shard: ShardRef, usage: Mapping[bytes, bytes], unpushed: Mapping[bytes, bytes]
) -> tuple[Any, ...]:
    """`kvcm_push` of one reading of the shard."""
    sizes: dict[str, int] = {}
    blocks: dict[str, int] = {}
    for (ref, state), (size, count) in parse_usage(usage).items():
        sizes[f"{ref}:{state}"] = size
        blocks[f"{ref}:{state}"] = count
    sessions: list[bytes | int] = []
    for sid, value in unpushed.items():
        sessions += [sid, int(value.rstrip(b"+")), 1 if value.endswith(b"+") else 0]
    generation, sequence = usage.get(b"gen", b"0"), usage.get(b"seq", b"0")
    vector = msgpack.packb([sizes, blocks])
    base = keyspace.group(shard.group_number)
    return ("FCALL", "kvcm_push", 1, base, shard.name, generation, sequence, vector, *sessions)


async def push(connection: Commands, shard: ShardRef) -> bool:
    """One push. May be done by anyone at any time. Whether a mark of the group is reached."""
    flat_usage, flat_unpushed = await connection.call("FCALL", "kvcm_usage", 1, shard.base)
    usage, unpushed = as_dict(flat_usage), as_dict(flat_unpushed)
    reply = await connection.call(*push_command(shard, usage, unpushed))
    if unpushed:
        pairs = [part for pair in unpushed.items() for part in pair]
        await connection.call("FCALL", "kvcm_pushed", 1, shard.base, *pairs)
    return bool(reply == MARK_REACHED)


class UsagePusher:
    """Pushes the shards that this process changed. `flush` is called every 50 ms or so."""

    def __init__(self, connection: Connection, waker: Waker) -> None:
        self._connection = connection
        self._waker = waker
        self._dirty: set[ShardRef] = set()

    def mark(self, shard: ShardRef) -> None:
        self._dirty.add(shard)

    async def flush(self) -> None:
        """Pushes all marked shards; one whose push fails stays marked, and the others are pushed first.

        No server waits for another: each failure takes as long as an outage is waited for. Then control
        is woken for groups that are at a high mark.
        """
        by_server: dict[Connection, list[ShardRef]] = defaultdict(list)
        for shard in self._dirty:
            by_server[self._connection.server_of(shard.base)].append(shard)
        await each_to_its_end([self._push_all(shards) for shards in by_server.values()])
        await self._waker.flush()

    async def _push_all(self, shards: Sequence[ShardRef]) -> None:
        failure: RedisError | None = None
        for shard in shards:
            self._dirty.discard(shard)
            try:
                if await push(self._connection, shard):
                    self._waker.marked(shard.group_number)
            except RedisError as error:
                self._dirty.add(shard)
                failure = error
            except BaseException:
                self._dirty.add(shard)
                raise
        if failure is not None:
            raise failure
