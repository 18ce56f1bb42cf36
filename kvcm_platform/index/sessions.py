"""Write sessions of one shard: open, finishing, gone (DESIGN 4.4; index/lua/2_sessions.lua)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.placement import Serving
from kvcm_platform.core.ports import WriteLimits, WritePlan
from kvcm_platform.core.registry import StorageEntry

from . import codec, keyspace, placing
from .shards import ShardRef

if TYPE_CHECKING:
    from .redis_index import RedisIndex

CHUNK = 512
"""Keys that one server-side function changes at most (DESIGN 4.1)."""
LONG_PLAN = 4096
"""Locations from which on a plan is placed off the event loop, so that other calls get their turn."""


class Sessions:
    """Adapter of one process; every change marks the shard for the next push of its usage."""

    def __init__(self, index: RedisIndex) -> None:
        self._index = index

    async def open(
        self,
        plan: WritePlan,
        shard: ShardRef,
        storage: StorageEntry | None,
        serving: Serving,
        limits: WriteLimits,
        touched: Mapping[bytes, int],
    ) -> tuple[list[bytes], set[int]]:
        """Opens the session and inserts its blocks, all of which lie in `shard`.

        `touched` are the runs of the request's existing blocks with the depth of each. Answers and
        errors as `BlockIndex.write`.
        """
        index = self._index
        now = index.now_ms()
        entries = [] if storage is None else await _entries(plan, storage, now, shard.shard)
        touches = b"".join(run + min(depth, 0xFFFF).to_bytes(2) for run, depth in touched.items())
        packed = codec.pack_keys(plan.keys)
        packed_depths = codec.pack_depths(plan.depths)
        header = placing.session_header(plan, storage, now, shard.shard)
        served = b"".join(number.to_bytes(2) for number in sorted(serving.numbers))
        max_keys = limits.max_key_count + len(plan.replaced)  # these are keys already
        lost: set[int] = set()
        for at in range(0, max(len(plan.keys), 1), CHUNK):
            reply = await index.function(
                *("kvcm_write", shard.base, plan.session_id),
                *((header, packed) if at == 0 else (b"", b"")),
                *(limits.max_sessions, max_keys, served, at),
                packed_depths[at * 2 : (at + CHUNK) * 2],
                *(packed[at * 8 : (at + CHUNK) * 8], plan.tick_ms, touches if at == 0 else b""),
                placing.pack_seen(plan, at, CHUNK),
                *entries[at : at + CHUNK],
            )
            index.pusher.mark(shard)
            if reply[0] != b"OK":
                await self._abandon(plan, shard, at, entries)
                raise refusal(reply[0], plan, limits)
            lost.update(reply[1:])
        return [entry[codec.HEADER :] for number, entry in enumerate(entries) if number not in lost], lost

    async def _abandon(
        self, plan: WritePlan, shard: ShardRef, inserted: int, entries: Sequence[bytes]
    ) -> None:
        """Ends a Start that was refused: what was inserted fails, the rest is given back."""
        if inserted:
            pairs = placing.never_inserted(plan, entries, inserted)
            await self.fail(shard, plan.session_id, inserted, pairs, is_forced=True)
        else:
            await self._index.pools.give_up(plan, [shard])
        await release(self._index, plan, [shard])

    async def fail(
        self,
        shard: ShardRef,
        session_id: str,
        inserted: int,
        never_inserted: Sequence[bytes],
        *,
        is_forced: bool,
        is_given_up: bool = False,
    ) -> bool:
        """Fails an open session; False when it was not open or has moved on (read it again).

        `never_inserted` are the (key, entry) pairs of its keys from index `inserted` on: their slots
        are freed first. With `is_given_up` they cannot be named any more.
        """
        index, force = self._index, int(is_forced)
        step = 2 * CHUNK
        for at in range(0, len(never_inserted), step):
            part = never_inserted[at : at + step]
            reply = await index.function(
                "kvcm_park", shard.base, session_id, force, inserted + at // 2, *part
            )
            index.pusher.mark(shard)
            if reply[0] != b"OK":
                return False
        reply = await index.function("kvcm_fail", shard.base, session_id, force, int(is_given_up))
        return await self.complete(shard, session_id, reply)

    async def finish(
        self, shard: ShardRef, session_id: str, mask: int | str, *, is_decided: bool = False
    ) -> list[Any]:
        """Begins to finish with an offset or a string of '0' and '1'; the reply of kvcm_finish.

        `is_decided`: the session's ticket says so, whatever the deadline.
        """
        form = "offset" if isinstance(mask, int) else "bools"
        reply: list[Any] = await self._index.function(
            "kvcm_finish", shard.base, session_id, form, mask, int(is_decided)
        )
        return reply

    async def names(self, shard: ShardRef, session_id: str) -> list[str] | None:
        """Names of the objects that an open session writes here, in order; None when it is not open."""
        raw, blob, lost = await self._index.connection.call(
            "HMGET", keyspace.sessions(shard.base), session_id, f"{session_id}:k", f"{session_id}:x"
        )
        header = None if raw is None else codec.SessionHeader.unpack(raw)
        if header is None or header.state != codec.SESSION_OPEN:
            return None
        names = placing.object_names(header, codec.unpack_keys(blob))
        gone = codec.unpack_indexes(lost)
        return [name for number, name in enumerate(names) if number not in gone]

    async def complete(self, shard: ShardRef, session_id: str, reply: list[Any]) -> bool:
        """Goes on with a finishing session until it is gone."""
        self._index.pusher.mark(shard)
        while reply[0] == b"OK" and reply[1] >= 0:
            reply = await self._index.function("kvcm_finish_next", shard.base, session_id, reply[1])
        return bool(reply[0] == b"OK")


async def _entries(plan: WritePlan, storage: StorageEntry, now_ms: int, shard: int) -> list[bytes]:
    if len(plan.keys) * len(plan.instance.location_spec_infos) > LONG_PLAN:
        return await asyncio.to_thread(placing.build_entries, plan, storage, now_ms, shard)
    return placing.build_entries(plan, storage, now_ms, shard)


async def release(index: RedisIndex, plan: WritePlan, shards: Sequence[ShardRef]) -> None:
    """Gives back what a Start had reserved for these shards."""
    fields = [f"{plan.session_id}|{shard.name}" for shard in shards]
    await index.connection.call("FCALL", "kvcm_release", 1, keyspace.group(plan.group.number), *fields)


async def free_place(index: RedisIndex, group_number: int, session_id: str) -> None:
    """Of a session that ended without its Finish: it counts no longer against `write_session_ratio`."""
    await index.connection.call("ZREM", keyspace.group_sessions(keyspace.group(group_number)), session_id)


def refusal(reason: bytes, plan: WritePlan, limits: WriteLimits) -> DomainError:
    match reason:
        case b"SESSIONS":
            text = f"instance {plan.instance.instance_id}: {limits.max_sessions} write sessions are open"
            return DomainError(Code.TOO_MANY, text)
        case b"KEYS":
            limit = plan.group.meta_indexer.max_key_count
            text = f"instance {plan.instance.instance_id}: would pass max_key_count {limit}"
            return DomainError(Code.CAPACITY, text)
    return DomainError(Code.NOT_READY, "the write was not inserted in time and is given back")
