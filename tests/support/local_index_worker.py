"""Writes, finishes, removes and deletes at random on a rocksdb index until it kills itself.

python -m tests.support.local_index_worker <redis url> <folder> <seed> <n>

dies by SIGKILL in the middle of a step's batch, when it puts the n-th value.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import rocksdict

from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index.embedded import rocks
from tests.support.data_plane import DataPlane, data_plane
from tests.support.local_client import local_client


class DeadlyBatch:
    """A write batch whose n-th `put` of the process is its last line."""

    left = 0

    def __init__(self, raw_mode: bool) -> None:
        self._batch = rocksdict.WriteBatch(raw_mode=raw_mode)
        self.delete = self._batch.delete

    def put(self, key: bytes, value: bytes) -> None:
        DeadlyBatch.left -= 1
        if DeadlyBatch.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._batch.put(key, value)


def arm(store: rocks.RocksStore, puts: int) -> None:
    DeadlyBatch.left = puts
    module: Any = rocks
    write = store._db.write

    class Armed:
        WriteBatch = DeadlyBatch

    class Unwrapping:
        def __getattr__(self, name: str) -> Any:
            return getattr(database, name)

        def write(self, batch: DeadlyBatch) -> None:
            write(batch._batch)

    database = store._db
    module.rocksdict = Armed
    store._db = Unwrapping()


async def step(plane: DataPlane, choice: random.Random) -> None:
    first = choice.randrange(2000)
    keys = list(range(first, first + choice.choice([1, 40, 700])))
    match choice.randrange(5):
        case 0 | 1 | 2:
            started = await plane.start(keys, timeout=choice.choice([1, 30]))
            if choice.random() < 0.8:
                await plane.finish(started, [choice.random() < 0.8 for _ in started.locations])
        case 3:
            await plane.service.remove_cache("model-a", Blocks(keys, ()), None)
        case 4:
            plane.make_due()
            await plane.duties()


async def main(url: str, folder: Path, seed: int, puts: int) -> None:
    choice = random.Random(seed)
    async with (
        local_client("rocksdb", folder, Path(url.removeprefix("unix://"))) as client,
        data_plane(url, client) as plane,
    ):
        arm(client.server.keys.store, puts)
        while True:
            await step(plane, choice)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
