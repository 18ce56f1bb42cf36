"""The block index in Redis (`core.ports.BlockIndex`): reads, and the phases of a write."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.masks import Mask
from kvcm_platform.core.placement import Serving
from kvcm_platform.core.ports import (
    Prefix,
    Record,
    Removed,
    TrimMode,
    WriteLimits,
    WritePlan,
)
from kvcm_platform.core.registry import InstanceEntry, StorageEntry
from kvcm_platform.core.types import WIRE_STORAGE_TYPE
from kvcm_platform.core.writes import SESSION_GONE

from . import codec, keyspace, placing, records, trims
from .connection import Connection, IndexUnavailable, StaleGeneration
from .recency import RecencyBuffer
from .usage import ShardRef, UsagePusher

CHUNK = 512
"""Keys that one server-side function changes at most (DESIGN 4.1)."""
FIRST_CHUNK = 256
"""A prefix match reads this many keys first, then twice as many each time: it stops at the first miss."""
LARGEST_CHUNK = 2048
LONG_PLAN = 4096
WAKE_SECONDS = 0.1
WAKE_LENGTH = 1000
MAX_GROUPS_WOKEN = 10_000

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def guarded(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turns an outage into NOT_READY, with the reason."""

    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except IndexUnavailable as error:
            raise DomainError(Code.NOT_READY, f"the index cannot be reached: {error}") from error

    return call


def shard_of(instance: InstanceEntry) -> ShardRef:
    return ShardRef(instance.number, 0, instance.group_number)


class RedisIndex:
    """Adapter of one process. `pusher` and `recency` are flushed by the process's background loop."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pusher = UsagePusher(connection)
        self.recency = RecencyBuffer(self)
        self._woke_at: dict[str, float] = {}
        self.touch = self.recency.touch
        self.on_removal: Callable[[InstanceEntry], None] = lambda instance: None
        """Called after this process removed blocks of an instance."""
        self.touch_keys = self.recency.touch_keys

    def now_ms(self) -> int:
        return self.connection.now_ms()

    async def function(self, name: str, base: str, *args: Any) -> Any:
        """A state-changing function, the generation in front; repeated once when that has moved on."""
        for _ in range(2):
            try:
                return await self.connection.call("FCALL", name, 1, base, self.connection.generation, *args)
            except StaleGeneration:
                continue
        raise IndexUnavailable("the server's generation keeps changing")

    @guarded
    async def records(self, instance: InstanceEntry, keys: Sequence[int]) -> list[Record]:
        if len(keys) == 0:
            return []
        name = keyspace.blocks(keyspace.instance(instance.number, 0))
        if len(keys) <= CHUNK:
            found: list[Record] = await self.connection.call("HMGET", name, *_fields(keys))
            return found
        parts = await self.connection.pipeline(
            [("HMGET", name, *_fields(keys[at : at + CHUNK])) for at in range(0, len(keys), CHUNK)]
        )
        return [record for part in parts for record in part]

    @guarded
    async def prefix(
        self, instance: InstanceEntry, keys: Sequence[int], serving: Serving, depth: int, tick: int
    ) -> Prefix:
        """The longest served prefix of `keys`, read in growing chunks up to the first miss."""
        found: list[bytes] = []
        at, size = 0, FIRST_CHUNK
        while at < len(keys):
            read = await self.records(instance, keys[at : at + size])
            before = len(found)
            for record in read:
                wire = records.served(record, instance, serving)
                if wire is None:
                    break
                found.append(wire)
            hits = len(found) - before
            self.touch(instance, read[:hits], depth + at, tick)
            if hits < len(read):
                break
            at, size = at + size, min(size * 2, LARGEST_CHUNK)
        return Prefix(len(found), found)

    @guarded
    async def reserve(self, plan: WritePlan, candidates: Sequence[StorageEntry]) -> StorageEntry:
        kinds = [WIRE_STORAGE_TYPE[storage.type] for storage in candidates]
        shard = shard_of(plan.instance)
        reply = await self.connection.call(
            *("FCALL", "kvcm_reserve", 1, keyspace.group(plan.group.number), plan.session_id),
            *(plan.insert_by_ms, plan.size, len(kinds), *kinds, shard.name, plan.size),
        )
        if reply[0] != b"OK":
            await self._wake(plan.group.name, "refused")
        match reply[0]:
            case b"OK":
                return candidates[int(reply[1])]
            case b"GROUP":
                raise DomainError(
                    Code.CAPACITY,
                    f"group {plan.group.name}: {plan.size} more bytes would pass its quota of {int(reply[2])}"
                    f" ({int(reply[1])} are used or reserved)",
                )
            case b"TYPE":
                names = ", ".join(storage.name for storage in candidates)
                raise DomainError(
                    Code.CAPACITY,
                    f"group {plan.group.name}: the type quota of each candidate is used up ({names})",
                )
        raise DomainError(Code.NOT_READY, f"group {plan.group.name}: its limits are not published yet")

    async def _wake(self, group: str, reason: str) -> None:
        """Tells control that a group needs room, at most once a WAKE_SECONDS."""
        now = time.monotonic()
        if now - self._woke_at.get(group, -WAKE_SECONDS) < WAKE_SECONDS:
            return
        if len(self._woke_at) > MAX_GROUPS_WOKEN:
            self._woke_at.clear()
        self._woke_at[group] = now
        await self.connection.call(
            *("XADD", keyspace.WAKE, "MAXLEN", "~", WAKE_LENGTH, "*", "reason", reason, "group", group)
        )

    @guarded
    async def write(
        self, plan: WritePlan, storage: StorageEntry | None, serving: Serving, limits: WriteLimits
    ) -> tuple[list[bytes], set[int]]:
        now = self.now_ms()
        entries = [] if storage is None else await _entries(plan, storage, now)
        shard = shard_of(plan.instance)
        touched = b"".join(
            run + min(depth, 0xFFFF).to_bytes(2) for run, depth in records.runs(plan.existing, 0).items()
        )
        packed = codec.pack_keys(plan.keys)
        packed_depths = struct.pack(f">{len(plan.depths)}H", *(min(d, 0xFFFF) for d in plan.depths))
        header = placing.session_header(plan, storage, now)
        served_blob = b"".join(number.to_bytes(2) for number in sorted(serving.numbers))
        lost: set[int] = set()
        for at in range(0, max(len(plan.keys), 1), CHUNK):
            reply = await self.function(
                *("kvcm_write", shard.base, plan.session_id),
                *((header, packed) if at == 0 else (b"", b"")),
                *(limits.max_sessions, limits.max_key_count, served_blob, at),
                packed_depths[at * 2 : (at + CHUNK) * 2],
                *(packed[at * 8 : (at + CHUNK) * 8], plan.tick_ms, touched if at == 0 else b""),
                placing.pack_seen(plan, at, CHUNK),
                *entries[at : at + CHUNK],
            )
            self.pusher.mark(shard)
            if reply[0] != b"OK":
                await self._abandon(plan, at, entries)
                raise _write_refusal(reply[0], plan, limits)
            lost.update(reply[1:])
        if not lost:
            return [entry[codec.HEADER :] for entry in entries], lost
        return [entry[codec.HEADER :] for index, entry in enumerate(entries) if index not in lost], lost

    async def _abandon(self, plan: WritePlan, inserted: int, entries: Sequence[bytes]) -> None:
        """Ends a Start that was refused: what was inserted fails, the rest is given back."""
        shard = shard_of(plan.instance)
        if inserted:
            pairs = placing.never_inserted(plan, entries, inserted)
            await self.fail(shard, plan.session_id, inserted, pairs, is_forced=True)
        field = f"{plan.session_id}|{shard.name}"
        await self.connection.call("FCALL", "kvcm_release", 1, keyspace.group(plan.group.number), field)

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
        force = int(is_forced)
        step = 2 * CHUNK
        for at in range(0, len(never_inserted), step):
            part = never_inserted[at : at + step]
            reply = await self.function("kvcm_park", shard.base, session_id, force, inserted + at // 2, *part)
            self.pusher.mark(shard)
            if reply[0] != b"OK":
                return False
        reply = await self.function("kvcm_fail", shard.base, session_id, force, int(is_given_up))
        return await self.complete(shard, session_id, reply)

    async def complete(self, shard: ShardRef, session_id: str, reply: list[Any]) -> bool:
        """Goes on with a finishing session until it is gone."""
        self.pusher.mark(shard)
        while reply[0] == b"OK" and reply[1] >= 0:
            reply = await self.function("kvcm_finish_next", shard.base, session_id, reply[1])
        return bool(reply[0] == b"OK")

    @guarded
    async def finish(self, instance: InstanceEntry, session_id: str, mask: Mask) -> tuple[int, int]:
        if mask is None:
            raise invalid("success_blocks", "is missing")
        shard = shard_of(instance)
        form: tuple[str, int | str]
        if isinstance(mask, int):
            form = ("offset", mask)
        else:
            form = ("bools", "".join("1" if success else "0" for success in mask))
        reply = await self.function("kvcm_finish", shard.base, session_id, *form)
        match reply[0]:
            case b"GONE":
                raise DomainError(Code.INTERNAL, SESSION_GONE)
            case b"MASK":
                raise invalid(
                    "success_blocks", f"does not fit the {reply[1]} locations of this write session"
                )
        count = reply[2]
        written = min(mask, count) if isinstance(mask, int) else sum(mask)
        # A caller that gives up waiting must not leave blocks behind: the rest goes on without it.
        await asyncio.shield(asyncio.ensure_future(self.complete(shard, session_id, reply)))
        return written, count - written

    @guarded
    async def remove(self, instance: InstanceEntry, keys: Sequence[int], delay_ms: int) -> Removed:
        total = Removed(0, 0)
        for at in range(0, len(keys), CHUNK):
            part = await self.remove_chunk(instance, "all", delay_ms, 0, 0, keys[at : at + CHUNK])
            total = Removed(total.locations + part.locations, total.size + part.size)
        return total

    async def remove_chunk(
        self,
        instance: InstanceEntry,
        mode: str,
        delay_ms: int,
        begin_ms: int,
        end_ms: int,
        keys: Sequence[int],
    ) -> Removed:
        shard = shard_of(instance)
        count, size = await self.function(
            "kvcm_remove", shard.base, mode, delay_ms, begin_ms, end_ms, codec.pack_keys(keys)
        )
        if count:
            self.pusher.mark(shard)
            self.on_removal(instance)
        return Removed(count, int(size))

    @guarded
    async def trim(
        self, instance: InstanceEntry, mode: TrimMode, begin_ms: int, end_ms: int, delay_ms: int
    ) -> int:
        return await trims.trim(self, trims.Trim(instance, mode, begin_ms, end_ms, delay_ms))


async def _entries(plan: WritePlan, storage: StorageEntry, now_ms: int) -> list[bytes]:
    """Long plans are placed off the event loop, so that other calls get their turn."""
    if len(plan.keys) * len(plan.instance.location_spec_infos) > LONG_PLAN:
        return await asyncio.to_thread(placing.build_entries, plan, storage, now_ms)
    return placing.build_entries(plan, storage, now_ms)


def _fields(keys: Sequence[int]) -> list[bytes]:
    blob = codec.pack_keys(keys)
    return [blob[at : at + 8] for at in range(0, len(blob), 8)]


def _write_refusal(reason: bytes, plan: WritePlan, limits: WriteLimits) -> DomainError:
    match reason:
        case b"SESSIONS":
            text = f"instance {plan.instance.instance_id}: {limits.max_sessions} write sessions are open"
            return DomainError(Code.TOO_MANY, text)
        case b"KEYS":
            text = f"instance {plan.instance.instance_id}: would pass max_key_count {limits.max_key_count}"
            return DomainError(Code.CAPACITY, text)
    return DomainError(Code.NOT_READY, "the write was not inserted in time and is given back")
