"""Trims: removal by time or of everything, on record until done.

A trim is written to `kvcm:trims` first and taken off when its scan is over; the duties of any
process go on with one whose process died, from the last cursor that was noted (removal by a fixed
span of time may be repeated).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvcm_platform.core.ports import TrimMode
from kvcm_platform.core.registry import InstanceEntry, instance_from_dict

from . import codec, gone, keyspace
from .facts import FactsBuffer
from .shards import ShardRef, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

SCAN_COUNT = 512
INLINE_SECONDS = 0.5
"""A trim that takes longer goes on in the background while the caller has its answer."""
LEASE_MS = 15_000
COUNT_SECONDS = 0.5
"""What a trim has removed is counted so often while it goes on."""

_background: set[asyncio.Task[bool]] = set()


@dataclass(frozen=True, slots=True)
class Span:
    """What a removal takes (index/lua/3_removal.lua); the time of writing in Redis ms, inclusive.

    `reason`: what those are told who ask where the blocks are (index/gone.py); empty = nothing.
    """

    mode: str
    delay_ms: int
    begin_ms: int = 0
    end_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trim:
    """Span in Redis milliseconds, inclusive."""

    instance: InstanceEntry
    mode: TrimMode
    begin_ms: int
    end_ms: int
    delay_ms: int
    id: str = ""


@dataclass(slots=True)
class Progress:
    """Locations marked so far."""

    marked: int = 0


async def begin(index: RedisIndex, wanted: Trim) -> Trim:
    """Puts a trim on record: from then on it is carried out, by whoever runs it or by the duties."""
    job = replace(wanted, id=secrets.token_hex(8))
    await index.connection.call("HSET", keyspace.TRIMS, job.id, json.dumps(asdict(job)))
    return job


async def trim(index: RedisIndex, wanted: Trim) -> None:
    """Begins a trim; what it has not done by the time the caller is let go goes on in the background."""
    job = await begin(index, wanted)
    task = asyncio.ensure_future(run(index, job, Progress()))
    _background.add(task)
    task.add_done_callback(_background.discard)
    done, _ = await asyncio.wait({task}, timeout=INLINE_SECONDS)
    if done:
        task.result()


async def run(index: RedisIndex, job: Trim, progress: Progress, deadline: float | None = None) -> bool:
    """Carries a trim out, from where it was left; one runner at a time holds its lease.

    Returns whether it is over. Past `deadline` (of time.monotonic) it stops and stays on record. What it
    removes is counted here, as `removed_blocks` of the instance, whoever runs it.
    """
    lease, owner = f"{keyspace.TRIMS}:{job.id}", secrets.token_hex(8)
    if not await index.connection.call("SET", lease, owner, "NX", "PX", LEASE_MS):
        return False
    counts = FactsBuffer(f"trim:{job.id}")
    try:
        return await _carry_out(index, job, progress, counts, (lease, owner), deadline)
    finally:
        # One that fails midway has removed what it has removed.
        await index.connection.pipeline(counts.take())


async def _carry_out(
    index: RedisIndex,
    job: Trim,
    progress: Progress,
    counts: FactsBuffer,
    held: tuple[str, str],
    deadline: float | None,
) -> bool:
    """`held`: the trim's lease and who has it."""
    connection, (lease, owner) = index.connection, held
    first, _, cursor = (await connection.call("HGET", keyspace.TRIM_CURSORS, job.id) or b"0:0").partition(
        b":"
    )
    span = Span(job.mode, job.delay_ms, job.begin_ms, job.end_ms, gone.trimmed(job.id))
    counted_at = time.monotonic()
    for shard in shards_of(job.instance)[int(first) :]:
        while True:
            cursor, keys = await scan_keys(index, shard, cursor)
            for at in range(0, len(keys), SCAN_COUNT):
                removed = await index.remove_chunk(job.instance, shard, span, keys[at : at + SCAN_COUNT])
                progress.marked += removed.locations
                if removed.locations:
                    counts.add(job.instance.instance_id, removed_blocks=removed.locations)
            if cursor == b"0":
                break
            if time.monotonic() - counted_at > COUNT_SECONDS:
                await connection.pipeline(counts.take())
                counted_at = time.monotonic()
            await connection.call("HSET", keyspace.TRIM_CURSORS, job.id, b"%d:" % shard.shard + cursor)
            is_mine = await connection.call("FCALL", "kvcm_lease_keep", 1, lease, owner, LEASE_MS)
            if not is_mine or (deadline is not None and time.monotonic() > deadline):
                await connection.call("FCALL", "kvcm_lease_drop", 1, lease, owner)
                return False
    await connection.pipeline(
        [
            ("HDEL", keyspace.TRIMS, job.id),
            ("HDEL", keyspace.TRIM_CURSORS, job.id),
            ("FCALL", "kvcm_lease_drop", 1, lease, owner),
        ]
    )
    return True


_ROW = np.dtype([("key", ">i8"), ("high", "u1"), ("number", ">u2"), ("size_high", ">u2"), ("size", ">u4")])
"""One location as kvcm_trim_count names it: its storage ref and its size in two parts each."""


@dataclass(frozen=True, slots=True)
class TrimCount:
    """What a trim would take: locations and their bytes; `by_number`: storage number -> (locations, bytes).

    `is_complete` is False where the time was up before everything was looked at.
    """

    blocks: int
    size: int
    by_number: dict[int, tuple[int, int]]
    is_complete: bool


async def count(
    index: RedisIndex, instance: InstanceEntry, mode: TrimMode, begin_ms: int, end_ms: int, seconds: float
) -> TrimCount:
    """What a trim with this mode and span would take now; nothing is changed.

    Times are the index's ms, inclusive. Takes `seconds` at most. Raises redis.RedisError.
    """
    deadline = time.monotonic() + seconds
    pages: list[np.ndarray] = []
    for shard in shards_of(instance):
        cursor = b"0"
        while True:
            if time.monotonic() > deadline:
                return _counted(pages, is_complete=False)
            cursor, rows = await index.connection.call(
                *("FCALL", "kvcm_trim_count", 1, shard.base, mode, begin_ms, end_ms, cursor, SCAN_COUNT)
            )
            pages.append(np.frombuffer(rows, _ROW))
            if cursor == b"0":
                break
    return _counted(pages, is_complete=True)


def _counted(pages: Sequence[np.ndarray], *, is_complete: bool) -> TrimCount:
    """A block that came on two pages, as it does while the server resizes its table, counts once."""
    if not pages:
        return TrimCount(0, 0, {}, is_complete)
    rows = np.concatenate(pages)
    page_of = np.repeat(np.arange(len(pages)), [len(page) for page in pages])
    _, first, block = np.unique(rows["key"], return_index=True, return_inverse=True)
    rows = rows[page_of == page_of[first][block]]
    sizes = (rows["size_high"].astype(np.int64) << 32) + rows["size"]
    by_number = {}
    for number in np.unique(rows["number"]):
        here = rows["number"] == number
        by_number[int(number)] = (int(here.sum()), int(sizes[here].sum()))
    return TrimCount(len(rows), int(sizes.sum()), by_number, is_complete)


async def scan_keys(index: RedisIndex, shard: ShardRef, cursor: bytes) -> tuple[bytes, list[int]]:
    """Next cursor (b"0" at the end) and some keys of a shard's blocks."""
    cursor, flat = await index.connection.call(
        "HSCAN", keyspace.blocks(shard.base), cursor, "COUNT", SCAN_COUNT
    )
    return cursor, [codec.unpack_keys(field)[0] for field in flat[::2]]


async def resume(index: RedisIndex, is_wanted: Callable[[InstanceEntry], bool], deadline: float) -> int:
    """Goes on with trims whose process died, of the wanted instances; returns the locations marked."""
    flat = await index.connection.call("HGETALL", keyspace.TRIMS)
    progress = Progress()
    for raw in flat[1::2]:
        data = json.loads(raw)
        data["instance"] = instance_from_dict(data["instance"])
        data["mode"] = TrimMode(data["mode"])
        job = Trim(**data)
        if is_wanted(job.instance):
            await run(index, job, progress, deadline)
    return progress.marked
