"""Writes to a memory pool from a process of its own and guards its memory against all others.

Arguments: Redis URL, file of owners, number of the process, number of Starts. The file has a word for
each 4 KiB of the segment, shared by all processes: who has a range writes its id there, and finds it
there when it lets go.
"""

from __future__ import annotations

import asyncio
import mmap
import random
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

import redis

from kvcm_platform.core.places import NoRoom
from kvcm_platform.core.pool_layout import MIN_SLOT_BYTES, pool_range, slot_class
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index.address import parse
from tests.support.data_plane import DataPlane, data_plane, found

WORD = struct.Struct("=q")
INSTANCES = ("model-a", "hybrid")


class Guard:
    """The words of the segment."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), 0)

    def _change(self, uris: Iterable[str], *, is_mine: bool) -> None:
        for uri in uris:
            one = pool_range(parse_uri(uri))
            before, after = (one.range_id, 0) if is_mine else (0, one.range_id)
            first = one.offset // MIN_SLOT_BYTES
            for word in range(first, first + -(-slot_class(one.size).slot_bytes // MIN_SLOT_BYTES)):
                (known,) = WORD.unpack_from(self._words, word * WORD.size)
                assert known == before, f"{uri}: {known} is there, not {before}"
                WORD.pack_into(self._words, word * WORD.size, after)

    def take(self, uris: Iterable[str]) -> None:
        self._change(uris, is_mine=False)

    def let_go(self, uris: Iterable[str]) -> None:
        self._change(uris, is_mine=True)


async def work(plane: DataPlane, guard: Guard, number: int, starts: int) -> None:
    choose = random.Random(number)
    live: dict[int, list[str]] = {}
    for turn in range(starts):
        instance_id = choose.choice(INSTANCES)
        first = (number << 40) + turn * 1000
        try:
            started = await plane.start(range(first, first + choose.choice([1, 7, 60, 600])), instance_id)
        except NoRoom:
            await let_half_go(plane, guard, live, choose)
            continue
        places = [[uri for _, uri in found(wire).specs] for wire in started.locations]
        guard.take(uri for uris in places for uri in uris)
        mask = [choose.random() < 0.8 for _ in places]
        for at, (uris, is_written) in enumerate(zip(places, mask, strict=True)):
            if is_written:
                live[first + at] = uris
            else:
                guard.let_go(uris)
        await plane.finish(started, mask, instance_id)
        await plane.index.pools.flush()
        await let_half_go(plane, guard, live, choose)
    for uris in live.values():
        guard.let_go(uris)
    await remove(plane, sorted(live))
    # Those of Starts that were refused, too.
    await plane.index.pools.flush()
    await plane.index.pusher.flush()


async def let_half_go(
    plane: DataPlane, guard: Guard, live: dict[int, list[str]], choose: random.Random
) -> None:
    gone = choose.sample(sorted(live), len(live) // 2)
    for key in gone:
        guard.let_go(live.pop(key))
    await remove(plane, gone)


async def remove(plane: DataPlane, keys: list[int]) -> None:
    for instance_id in INSTANCES if keys else ():
        await plane.service.remove_cache(instance_id, Blocks(keys, ()), None)


async def main(url: str, path: Path, number: int, starts: int) -> None:
    client = redis.Redis(unix_socket_path=parse(url).path)
    async with data_plane(url, client) as plane:
        await work(plane, Guard(path), number, starts)
    client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
