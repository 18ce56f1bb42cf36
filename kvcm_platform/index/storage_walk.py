"""Goes through one shard for the blocks of some storages, to remove those that have no object any more."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import LocationStatus

from . import codec, keyspace
from .codec import StoredLocation
from .gone import LOST, cleared
from .shards import ShardRef
from .stats import parse_usage
from .storage_refs import number_of
from .usage import as_dict

if TYPE_CHECKING:
    from .redis_index import RedisIndex

PAGE = 128
"""Blocks a look: what goes is marked in one call, which must not hold up readers."""
SHARDS_AT_ONCE = 256
DELETING = int(LocationStatus.DELETING)

Present = Callable[[Sequence[StoredLocation]], Awaitable[list[bool]]]
"""Whether the objects of each location are there."""


@dataclass(frozen=True, slots=True)
class WalkTask:
    """What to look for.

    All locations on the numbers of `clear` go; those on the numbers of `check` when their object is
    missing. `check` has the id of the newest request of each number.
    """

    clear: frozenset[int]
    check: Mapping[int, int]


async def live_numbers(index: RedisIndex, shard: ShardRef) -> set[int]:
    """Numbers of storages on which the shard has blocks that are written or served."""
    return _live(await index.connection.call("HGETALL", shard.base))


async def live_numbers_of(index: RedisIndex, shards: Sequence[ShardRef]) -> set[int]:
    """The same of many shards together."""
    numbers: set[int] = set()
    for at in range(0, len(shards), SHARDS_AT_ONCE):
        commands = [("HGETALL", shard.base) for shard in shards[at : at + SHARDS_AT_ONCE]]
        for usage in await index.connection.pipeline(commands):
            numbers |= _live(usage)
    return numbers


def _live(usage: list[bytes]) -> set[int]:
    amounts = parse_usage(as_dict(usage)).items()
    return {number_of(ref) for (ref, state), (_, count) in amounts if state != "p" and count}


@dataclass(slots=True)
class ShardWalk:
    """One shard's walk. It may be left at any time; the next one goes on where it was."""

    index: RedisIndex
    instance: InstanceEntry
    shard: ShardRef
    task: WalkTask
    delay_ms: int
    removed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Locations marked for deletion, by number."""

    async def is_needed(self) -> bool:
        there = await live_numbers(self.index, self.shard)
        if there & self.task.clear:
            return True
        newest = max((request for number, request in self.task.check.items() if number in there), default=0)
        return newest > await self._seen()

    async def run(self, present: Present, deadline: float, pause: Callable[[], Awaitable[None]]) -> bool:
        """True when the whole shard was gone through; False at the `deadline` (of time.monotonic)."""
        newest = max(self.task.check.values(), default=0)
        cursor = await self._cursor(newest)
        while True:
            cursor, flat = await self.index.connection.call(
                *("HSCAN", keyspace.blocks(self.shard.base), cursor, "COUNT", PAGE)
            )
            pairs = list(zip(flat[::2], flat[1::2], strict=True))
            for at in range(0, len(pairs), PAGE):
                await self._look_at(pairs[at : at + PAGE], present)
            if cursor == b"0":
                break
            await self._note(b"%d:%b" % (newest, cursor))
            await pause()
            if time.monotonic() > deadline:
                return False
        await self._note(b"%d:" % newest)
        return True

    async def _look_at(self, pairs: Iterable[tuple[bytes, bytes]], present: Present) -> None:
        going: dict[str, dict[bytes, list[StoredLocation]]] = defaultdict(lambda: defaultdict(list))
        owners: list[bytes] = []
        asked: list[StoredLocation] = []
        for key, record in pairs:
            for location in codec.locations(record):
                if location.status == DELETING:
                    continue
                if location.storage_number in self.task.clear:
                    going[cleared(location.storage_number)][key].append(location)
                elif location.storage_number in self.task.check and location.status == codec.SERVING:
                    owners.append(key)
                    asked.append(location)
        if asked:
            for key, location, is_there in zip(owners, asked, await present(asked), strict=True):
                if not is_there:
                    going[LOST][key].append(location)
        for reason, locations in going.items():
            await self._remove(reason, locations)

    async def _remove(self, reason: str, going: Mapping[bytes, Sequence[StoredLocation]]) -> None:
        count, _ = await self.index.function(
            *("kvcm_remove", self.shard.base, "named", self.delay_ms, 0, 0, b"".join(going), reason),
            *("".join(location.location_id for location in locations) for locations in going.values()),
        )
        for locations in going.values():
            for location in locations:
                self.removed[location.storage_number] += 1
        if count:
            self.index.pusher.mark(self.shard)
            self.index.on_removal(self.instance)

    async def _state(self) -> tuple[int, bytes]:
        """(newest request that a walk was begun for, its cursor; b"" = it is over)."""
        noted = await self.index.connection.call("HGET", keyspace.STORAGE_WALKS, self.shard.name)
        request, _, cursor = (noted or b"0:").partition(b":")
        return int(request), cursor

    async def _seen(self) -> int:
        request, cursor = await self._state()
        return 0 if cursor else request

    async def _cursor(self, newest: int) -> bytes:
        request, cursor = await self._state()
        return cursor if cursor and request == newest else b"0"

    async def _note(self, state: bytes) -> None:
        await self.index.connection.call("HSET", keyspace.STORAGE_WALKS, self.shard.name, state)
