"""Trims: removal by time or of everything, on record until done.

A trim is written to `kvcm:trims` first and taken off when its scan is over; the duties of any
process go on with one whose process died (it is repeated from the start: removal by a fixed span
of time is idempotent).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from kvcm_platform.core.ports import TrimMode
from kvcm_platform.core.registry import InstanceEntry, instance_from_dict

from . import codec, keyspace

if TYPE_CHECKING:
    from .redis_index import RedisIndex

SCAN_COUNT = 512
INLINE_SECONDS = 0.5
"""A trim that takes longer goes on in the background while the caller has its answer."""
LEASE_MS = 15_000

_background: set[asyncio.Task[int]] = set()


@dataclass(frozen=True, slots=True)
class Trim:
    """Span in Redis milliseconds, inclusive."""

    instance: InstanceEntry
    mode: TrimMode
    begin_ms: int
    end_ms: int
    delay_ms: int
    id: str = ""


async def trim(index: RedisIndex, wanted: Trim) -> None:
    job = replace(wanted, id=secrets.token_hex(8))
    await index.connection.call("HSET", keyspace.TRIMS, job.id, json.dumps(asdict(job)))
    task = asyncio.ensure_future(run(index, job))
    _background.add(task)
    task.add_done_callback(_background.discard)
    done, _ = await asyncio.wait({task}, timeout=INLINE_SECONDS)
    if done:
        task.result()


async def run(index: RedisIndex, job: Trim) -> int:
    """Carries a trim out; returns the number of locations marked. One runner at a time holds its lease."""
    lease = f"{keyspace.TRIMS}:{job.id}"
    if not await index.connection.call("SET", lease, "1", "NX", "PX", LEASE_MS):
        return 0
    name = keyspace.blocks(keyspace.instance(job.instance.number, 0))
    cursor, marked = b"0", 0
    while True:
        cursor, flat = await index.connection.call("HSCAN", name, cursor, "COUNT", SCAN_COUNT)
        keys = [codec.unpack_keys(field)[0] for field in flat[::2]]
        for at in range(0, len(keys), SCAN_COUNT):
            removed = await index.remove_chunk(
                job.instance, job.mode, job.delay_ms, job.begin_ms, job.end_ms, keys[at : at + SCAN_COUNT]
            )
            marked += removed.locations
        await index.connection.call("PEXPIRE", lease, LEASE_MS)
        if cursor == b"0":
            break
    await index.connection.pipeline([("HDEL", keyspace.TRIMS, job.id), ("DEL", lease)])
    return marked


async def resume(index: RedisIndex) -> int:
    """Goes on with trims whose process died; returns the number of locations marked."""
    flat = await index.connection.call("HGETALL", keyspace.TRIMS)
    marked = 0
    for raw in flat[1::2]:
        data = json.loads(raw)
        data["instance"] = instance_from_dict(data["instance"])
        data["mode"] = TrimMode(data["mode"])
        marked += await run(index, Trim(**data))
    return marked
