"""Blocks of shards in doubt (index/life.py): hidden from readers, looked at by a duty."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import LocationStatus

from . import codec, keyspace
from .codec import HEADER, SERVING, StoredLocation
from .gone import LOST
from .shards import ShardRef, of_keys

if TYPE_CHECKING:
    from .redis_index import RedisIndex

PAGE = 128
"""Blocks a look: what is found gone is removed in one call, which must not hold up readers."""
WRITING = int(LocationStatus.WRITING)

Intact = Callable[[Sequence[StoredLocation]], Awaitable[list[bool]]]
"""Whether the objects of each location are there."""


def concealed(
    found: Sequence[bytes | None], keys: Sequence[int], shards: int, hidden: set[int]
) -> list[bytes | None]:
    """The records, those of hidden shards without a serving location: no hit, and nothing to write either."""
    numbers = of_keys(keys, shards).tolist() if shards > 1 else [0] * len(keys)
    return [
        record if record is None or number not in hidden else _as_writing(record)
        for record, number in zip(found, numbers, strict=True)
    ]


def _as_writing(record: bytes) -> bytes:
    shown, at = bytearray(record), 0
    while at < len(shown):
        if shown[at] == SERVING:
            shown[at] = WRITING
        at += HEADER + int.from_bytes(shown[at + 33 : at + 36])
    return bytes(shown)


class ShardCheck:
    """Goes through one shard in doubt. May be left at any time; the next one goes on where it was."""

    def __init__(self, index: RedisIndex, instance: InstanceEntry, shard: ShardRef, delay_ms: int) -> None:
        self._index = index
        self._connection = index.connection
        self._server = index.connection.server_of(shard.base)
        self._instance = instance
        self._shard = shard
        self._delay_ms = delay_ms
        self._life = index.connection.life_of(shard.base)
        self._doubt = self._life.doubt
        self.lost = 0
        """Locations whose objects were not there."""

    async def is_done(self) -> bool:
        checked = await self._connection.call("HGET", self._shard.base, "checked")
        return self._life.trusts(self._shard.base) or int(checked or 0) >= self._doubt

    async def run(self, intact: Intact, deadline: float, pause: Callable[[], Awaitable[None]]) -> bool:
        """True when the whole shard was gone through; False at the `deadline` (of time.monotonic)."""
        blocks, cursor = keyspace.blocks(self._shard.base), await self._cursor()
        while True:
            cursor, flat = await self._connection.call("HSCAN", blocks, cursor, "COUNT", PAGE)
            pairs = list(zip(flat[::2], flat[1::2], strict=True))
            for at in range(0, len(pairs), PAGE):
                await self._look_at(pairs[at : at + PAGE], intact)
            if cursor == b"0":
                break
            await self._server.call(
                "HSET", keyspace.VERIFYING, self._shard.name, b"%d:%b" % (self._doubt, cursor)
            )
            await pause()
            if time.monotonic() > deadline:
                return False
        await self._index.function("kvcm_checked", self._shard.base, self._doubt)
        await self._server.call("HDEL", keyspace.VERIFYING, self._shard.name)
        return True

    async def _cursor(self) -> bytes:
        noted = await self._server.call("HGET", keyspace.VERIFYING, self._shard.name)
        doubt, _, cursor = (noted or b"").partition(b":")
        return cursor if doubt == b"%d" % self._doubt else b"0"

    async def _look_at(self, pairs: Sequence[tuple[bytes, bytes]], intact: Intact) -> None:
        owners: list[bytes] = []
        serving: list[StoredLocation] = []
        for key, record in pairs:
            for location in codec.locations(record):
                if location.status == SERVING:
                    owners.append(key)
                    serving.append(location)
        lost: dict[bytes, list[str]] = defaultdict(list)
        for key, location, is_there in zip(owners, serving, await intact(serving), strict=True):
            if not is_there:
                lost[key].append(location.location_id)
        if lost:
            count, _ = await self._index.function(
                *("kvcm_remove", self._shard.base, "named", self._delay_ms, 0, 0, b"".join(lost)),
                *(LOST, *("".join(ids) for ids in lost.values())),
            )
            self.lost += count
            self._index.pusher.mark(self._shard)
            self._index.on_removal(self._instance)
