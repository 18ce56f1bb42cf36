"""`MetaIndex` over a store: batches along lock shards, and compare-and-set where a modifier decides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

from kvcm_platform.core.errors import Code, DomainError

from .batches import ShardLocks, batches
from .interface import Delete, IndexUsage, Modifier, ModifyReport, Outcome, Page, Put, Skip
from .store import MOST_WRITES, Expected, RecordStore, Write

ATTEMPTS = 64
"""Rounds of compare-and-set. Each lost one was another process's success, so a second is plenty."""
BACKOFF_SECONDS = 0.001
LONGEST_BACKOFF = 0.05


class LockedMetaIndex:
    """The locks keep the tasks of this process apart; the store's conditions keep processes apart."""

    def __init__(self, store: RecordStore, lock_count: int, batch_size: int) -> None:
        self._store = store
        self._locks = ShardLocks(lock_count)
        self._batch_size = batch_size

    async def get(self, keys: Sequence[int]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for at in range(0, len(keys), MOST_WRITES):
            found += await self._store.read(keys[at : at + MOST_WRITES])
        return found

    async def put(self, records: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        return await self._write([Write(key, record) for key, record in records])

    async def update(self, records: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        return await self._write([Write(key, record, Expected.SOMETHING) for key, record in records])

    async def delete(self, keys: Sequence[int]) -> list[Outcome]:
        return await self._write([Write(key, None) for key in keys])

    async def _write(self, writes: Sequence[Write]) -> list[Outcome]:
        outcomes: list[Outcome] = [Outcome.MISSING] * len(writes)
        keys = [write.key for write in writes]
        for batch in batches(keys, self._locks.count, self._batch_size):
            async with self._locks.held(batch.shards):
                for at in range(0, len(batch.positions), MOST_WRITES):
                    part = batch.positions[at : at + MOST_WRITES]
                    replies = await self._store.write([writes[position] for position in part])
                    for position, outcome in zip(part, replies, strict=True):
                        if outcome is not None:  # only a record that was expected gives None
                            outcomes[position] = outcome
        return outcomes

    async def read_modify_write(self, keys: Sequence[int], modifier: Modifier) -> ModifyReport:
        report = ModifyReport()
        for batch in batches(keys, self._locks.count, self._batch_size):
            async with self._locks.held(batch.shards):
                for at in range(0, len(batch.positions), MOST_WRITES):
                    part = batch.positions[at : at + MOST_WRITES]
                    await self._modify([keys[position] for position in part], modifier, report)
        return report

    async def _modify(self, keys: list[int], modifier: Modifier, report: ModifyReport) -> None:
        for attempt in range(ATTEMPTS):
            distinct = list(dict.fromkeys(keys))
            held = dict(zip(distinct, await self._store.read(distinct), strict=True))
            tallies, after = _decide(keys, held, modifier)
            writes = [Write(key, after[key], held[key]) for key in distinct if after[key] != held[key]]
            outcomes = await self._store.write(writes) if writes else []
            lost = {write.key for write, outcome in zip(writes, outcomes, strict=True) if outcome is None}
            for key, name in tallies:
                if key not in lost:
                    setattr(report, name, getattr(report, name) + 1)
            if not lost:
                return
            keys = [key for key in keys if key in lost]
            pause = min(BACKOFF_SECONDS * (attempt + 1), LONGEST_BACKOFF)
            await asyncio.sleep(random.random() * pause)  # noqa: S311
        raise DomainError(Code.CONFLICT, f"{len(set(keys))} records kept changing during {ATTEMPTS} attempts")

    async def scan(self, cursor: bytes, limit: int) -> Page:
        if limit < 1:
            raise DomainError(Code.INVALID_ARGUMENT, f"limit: {limit} is not positive", field="limit")
        return await self._store.scan(cursor, limit)

    async def random_sample(self, n: int) -> list[int]:
        return await self._store.random_sample(n) if n > 0 else []

    async def count(self) -> int:
        return (await self._store.usage()).records

    async def usage(self) -> IndexUsage:
        return await self._store.usage()

    async def close(self) -> None:
        await self._store.close()


def _decide(
    keys: Sequence[int], held: Mapping[int, bytes | None], modifier: Modifier
) -> tuple[list[tuple[int, str]], dict[int, bytes | None]]:
    """(key, member of the report) in order, and what each key shall hold."""
    after = dict(held)
    tallies: list[tuple[int, str]] = []
    for key in keys:
        now = after[key]
        change = modifier(key, now)
        if isinstance(change, Skip):
            tallies.append((key, "skipped"))
        elif isinstance(change, Put):
            tallies.append((key, "put"))
            after[key] = change.record
        elif now is None:
            tallies.append((key, "missing"))
        elif isinstance(change, Delete):
            tallies.append((key, "deleted"))
            after[key] = None
        else:
            tallies.append((key, "updated"))
            after[key] = change.record
    return tallies, after
