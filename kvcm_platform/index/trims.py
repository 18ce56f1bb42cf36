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
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from kvcm_platform.core.ports import TrimMode
from kvcm_platform.core.registry import InstanceEntry, instance_from_dict

from . import codec, keyspace
from .shards import ShardRef, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

SCAN_COUNT = 512
INLINE_SECONDS = 0.5
"""A trim that takes longer goes on in the background while the caller has its answer."""
LEASE_MS = 15_000

_background: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Span:
    """What a removal takes (index/lua/3_removal.lua); the time of writing in Redis ms, inclusive."""

    mode: str
    delay_ms: int
    begin_ms: int = 0
    end_ms: int = 0


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


async def trim(index: RedisIndex, wanted: Trim) -> int:
    """Begins a trim; returns the locations marked by the time the caller is let go."""
    job = replace(wanted, id=secrets.token_hex(8))
    await index.connection.call("HSET", keyspace.TRIMS, job.id, json.dumps(asdict(job)))
    progress = Progress()
    task = asyncio.ensure_future(run(index, job, progress))
    _background.add(task)
    task.add_done_callback(_background.discard)
    done, _ = await asyncio.wait({task}, timeout=INLINE_SECONDS)
    if done:
        task.result()
    return progress.marked


async def run(index: RedisIndex, job: Trim, progress: Progress, deadline: float | None = None) -> None:
    """Carries a trim out, from where it was left; one runner at a time holds its lease.

    Past `deadline` (of time.monotonic) it stops and stays on record.
    """
    lease, owner = f"{keyspace.TRIMS}:{job.id}", secrets.token_hex(8)
    connection = index.connection
    if not await connection.call("SET", lease, owner, "NX", "PX", LEASE_MS):
        return
    first, _, cursor = (await connection.call("HGET", keyspace.TRIM_CURSORS, job.id) or b"0:0").partition(
        b":"
    )
    span = Span(job.mode, job.delay_ms, job.begin_ms, job.end_ms)
    for shard in shards_of(job.instance)[int(first) :]:
        while True:
            cursor, keys = await scan_keys(index, shard, cursor)
            for at in range(0, len(keys), SCAN_COUNT):
                removed = await index.remove_chunk(job.instance, shard, span, keys[at : at + SCAN_COUNT])
                progress.marked += removed.locations
            if cursor == b"0":
                break
            await connection.call("HSET", keyspace.TRIM_CURSORS, job.id, b"%d:" % shard.shard + cursor)
            is_mine = await connection.call("FCALL", "kvcm_lease_keep", 1, lease, owner, LEASE_MS)
            if not is_mine or (deadline is not None and time.monotonic() > deadline):
                await connection.call("FCALL", "kvcm_lease_drop", 1, lease, owner)
                return
    await connection.pipeline(
        [
            ("HDEL", keyspace.TRIMS, job.id),
            ("HDEL", keyspace.TRIM_CURSORS, job.id),
            ("FCALL", "kvcm_lease_drop", 1, lease, owner),
        ]
    )


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
