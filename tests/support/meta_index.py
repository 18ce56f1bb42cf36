"""Opens indexes of every backend for the tests of MetaIndex."""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import CachePolicy, MetaIndexerSettings
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.meta_index.factory import open_meta_index
from kvcm_platform.index.meta_index.interface import START, MetaIndex, Put

LOW, HIGH = -(2**63), 2**63 - 1
NO_CACHE = CachePolicy(capacity_mb=0)
PLAIN = MetaIndexerSettings(max_key_count=1 << 40, cache_policy=NO_CACHE)
SMALL_CACHE = CachePolicy(capacity_mb=1, type="LRU", shard_bits=2, high_pri_pool_ratio=0.5)

BACKENDS = {
    "redis": ("redis", "", NO_CACHE),
    "redis, 3 shards": ("redis", "?shards=3", NO_CACHE),
    "redis, cached": ("redis", "", SMALL_CACHE),
    "local": ("local", "", NO_CACHE),
    "local, snapshot": ("local", "file://{folder}/records.snapshot", NO_CACHE),
    "local, cached": ("local", "", SMALL_CACHE),
    "rocksdb": ("rocksdb", "file://{folder}/rocks", NO_CACHE),
    "rocksdb, cached": ("rocksdb", "file://{folder}/rocks", SMALL_CACHE),
}
KEPT = [name for name in BACKENDS if name != "local" and name != "local, cached"]
"""Backends whose records outlive the object."""


@dataclass
class Bench:
    """Opens indexes of one backend; `open` again gives the same records where they are kept."""

    backend: str
    folder: Path
    connection: Connection
    opened: list[MetaIndex]

    def settings(self, **changes: object) -> MetaIndexerSettings:
        kind, uri, policy = BACKENDS[self.backend]
        plain = replace(
            PLAIN, storage_type=kind, storage_uri=uri.format(folder=self.folder), cache_policy=policy
        )
        return replace(plain, **changes)

    async def open(self, **changes: object) -> MetaIndex:
        index = await open_meta_index(
            self.settings(**changes), "test", commands=self.connection, is_only_writer=True
        )
        self.opened.append(index)
        return index

    async def close(self) -> None:
        while self.opened:
            await self.opened.pop().close()


def counter(key: int, record: bytes | None) -> Put:
    """A modifier that adds one."""
    return Put(struct.pack(">Q", (0 if record is None else struct.unpack(">Q", record)[0]) + 1))


async def everything(index: MetaIndex, limit: int = 100) -> list[tuple[int, bytes]]:
    cursor, items = START, []
    for _ in range(100_000):
        page = await index.scan(cursor, limit)
        items += page.items
        cursor = page.cursor
        if cursor == START:
            return items
    raise AssertionError("the scan does not end")


async def refused(call: Awaitable[object], code: Code) -> DomainError:
    with pytest.raises(DomainError) as caught:
        await call
    assert caught.value.code is code
    return caught.value
