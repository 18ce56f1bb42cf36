"""Processes of tests/contract/test_meta_index.py.

python -m tests.support.meta_index_worker <redis url> <uri parameters> <seed>    increments counters
python -m tests.support.meta_index_worker rocksdb <folder>                       writes until it is killed
"""

from __future__ import annotations

import asyncio
import random
import struct
import sys

from kvcm_platform.core.registry import CachePolicy, MetaIndexerSettings
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.meta_index.factory import open_meta_index
from kvcm_platform.index.meta_index.interface import Put

SETTINGS = {"max_key_count": 1 << 40, "cache_policy": CachePolicy(capacity_mb=0)}


def counter(_: int, record: bytes | None) -> Put:
    return Put(struct.pack(">Q", (0 if record is None else struct.unpack(">Q", record)[0]) + 1))


async def increment(url: str, uri: str, seed: int) -> None:
    connection = connection_to(url)
    await connection.connect()
    settings = MetaIndexerSettings(storage_type="redis", storage_uri=uri, **SETTINGS)
    index = await open_meta_index(settings, "test", commands=connection)
    choice = random.Random(seed)
    for _ in range(300):
        await index.read_modify_write(choice.sample(range(12), 6), counter)
    await connection.close()


async def write_on(folder: str) -> None:
    settings = MetaIndexerSettings(
        storage_type="rocksdb", storage_uri=f"file://{folder}", mutex_shard_num=1, **SETTINGS
    )
    index = await open_meta_index(settings, "test")
    for batch in range(1_000_000):
        await index.put([(key, b"%d" % key) for key in range(batch * 10, batch * 10 + 10)])
        print(batch + 1, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "rocksdb":
        asyncio.run(write_on(sys.argv[2]))
    else:
        asyncio.run(increment(sys.argv[1], sys.argv[2], int(sys.argv[3])))
