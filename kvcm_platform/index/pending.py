"""Pending deletions (core.deletion.PendingList) and notes of backends (storage.backend.Ledgers) in Redis."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import structlog
from google.protobuf.message import DecodeError

from kvcm_platform.core.deletion import FreedSlots, PendingDeletion, PendingObject
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.writes import MAX_WRITE_TIMEOUT

from . import codec, keyspace, pools
from .connection import Connection, IndexUnavailable
from .durability import Durability
from .late_deletions import unreadable_note
from .redis_index import RedisIndex
from .shards import ShardRef

QUARANTINE_MS = MAX_WRITE_TIMEOUT * 1000
"""Failed writes are freed once more after so long, at least: a late writer may still come."""
CHUNK = 128
READ_CHUNK = 512
UNREADABLE_MS = 600_000
ASIDE = 1 << 43
"""Later than any time in ms: what is set aside lies behind it, each storage in a step of its own."""
_SERVED = frozenset({b"d", b"e", b"E", b"o"})
"""Flags of entries whose write was finished (lua/1_common.lua)."""

log = structlog.get_logger(__name__)


def decode(member: bytes, value: bytes) -> PendingDeletion:
    """One entry of the list: a flag and the location as it stood in the block's record."""
    flag, _, entry = codec.split_pending(value)
    location = next(codec.locations(entry))
    uris = [parse_uri(uri) for _, uri in location.specs()]
    is_joint = len({uri.size for uri in uris}) <= 1
    objects = tuple(
        PendingObject(
            uri,
            location.position.slots_in_file(index, len(uris), is_joint),
            is_second_pass=flag == b"g",
            was_served=flag in _SERVED,
        )
        for index, uri in enumerate(uris)
    )
    return PendingDeletion(
        handle=flag + member,
        storage_number=location.storage_number,
        is_orphan=flag == b"o",
        objects=objects,
        size=location.size,
        entry=entry,
    )


class RedisPending:
    def __init__(
        self,
        index: RedisIndex,
        shard: ShardRef,
        quarantine_ms: int = QUARANTINE_MS,
        durability: Durability | None = None,
        ahead_ms: int = 0,
    ) -> None:
        """`quarantine_ms`: how long after its first freeing the place of a failed write is freed again.

        `durability` is shared by the shards that one run looks after. `ahead_ms`: how early `soon` looks.
        """
        self._index = index
        self._shard = shard
        self._quarantine_ms = quarantine_ms
        self._durability = durability or Durability(index.connection)
        self._ahead_ms = ahead_ms

    async def due(self, limit: int) -> list[PendingDeletion]:
        found, _ = await self._due(limit, 0)
        return found

    async def soon(self, limit: int) -> tuple[list[PendingDeletion], float]:
        if not self._ahead_ms:
            return [], 0.0
        return await self._due(limit, self._ahead_ms)

    async def _due(self, limit: int, ahead_ms: int) -> tuple[list[PendingDeletion], float]:
        """And when (time.monotonic) all of them are due."""
        found: list[PendingDeletion] = []
        ready_at = 0.0
        for skip in range(0, limit, READ_CHUNK):
            count = min(READ_CHUNK, limit - skip)
            # What cannot be read is put off, so the next part may begin a little behind where this one ended.
            read, left_ms = await self._read("kvcm_due", count, skip, ahead_ms)
            ready_at = max(ready_at, time.monotonic() + left_ms / 1000)
            found += await self._decoded(read)
            if len(read) < count:
                break
        return found, ready_at

    async def aside(self, storage_number: int, limit: int) -> list[PendingDeletion]:
        read, _ = await self._read("kvcm_aside", storage_number, min(limit, READ_CHUNK))
        return await self._decoded(read)

    async def _read(self, function: str, *args: int) -> tuple[list[tuple[bytes, bytes]], int]:
        """(member, value) pairs, and the ms until the last one is due."""
        reply = await self._index.connection.call("FCALL", function, 1, self._shard.base, *args)
        return list(zip(reply[2::2], reply[3::2], strict=True)), reply[1] - reply[0]

    async def _decoded(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[PendingDeletion]:
        found = []
        unreadable: dict[bytes, str] = {}
        for member, value in pairs:
            try:
                found.append(decode(member, value))
            except (ValueError, IndexError, StopIteration, DecodeError) as error:
                # One that cannot be read must not keep the others waiting.
                log.error("a pending deletion cannot be read", member=member.hex(), reason=str(error))
                await self.postpone([(value[:1] or b"?") + member], UNREADABLE_MS)
                unreadable[member] = str(error)
        if unreadable:
            with suppress(IndexUnavailable):  # an index in this process goes on without Redis
                await unreadable_note(self._index.connection, self._shard.base, unreadable)
        return found

    async def durable(self) -> None:
        await self._durability.wait(self._shard.base)

    async def done(self, handles: Sequence[bytes], *, are_left: bool = False) -> None:
        for at in range(0, len(handles), CHUNK):
            await self._index.function(
                *("kvcm_deleted", self._shard.base, self._quarantine_ms, int(are_left)),
                *handles[at : at + CHUNK],
            )
        self._index.pusher.mark(self._shard)

    async def postpone(self, handles: Sequence[bytes], delay_ms: int) -> None:
        for at in range(0, len(handles), CHUNK):
            await self._index.function("kvcm_postpone", self._shard.base, delay_ms, *handles[at : at + CHUNK])

    async def set_aside(self, handles: Sequence[bytes], storage_number: int) -> None:
        await self.postpone(handles, (storage_number + 1) * ASIDE)

    async def orphan(self, deletions: Sequence[PendingDeletion]) -> None:
        for deletion in deletions:
            member = self._shard.base.encode() + deletion.handle[1:]
            await self._index.connection.call(
                *("FCALL", "kvcm_orphan", 1, keyspace.storage(deletion.storage_number)),
                *(member, deletion.size, deletion.entry),
            )
        await self.done([deletion.handle for deletion in deletions], are_left=True)


async def set_aside_of(index: RedisIndex, shards: Sequence[ShardRef]) -> dict[int, list[ShardRef]]:
    """The storages for which anything is set aside, by number, and in which of the shards."""
    commands = [("FCALL", "kvcm_asides", 1, shard.base) for shard in shards]
    found: dict[int, list[ShardRef]] = {}
    for shard, numbers in zip(shards, await index.connection.pipeline(commands), strict=True):
        for number in numbers:
            found.setdefault(number, []).append(shard)
    return found


class RedisSlotLedger:
    """Freed slots of the files of one storage."""

    def __init__(self, connection: Connection, storage_number: int) -> None:
        self._connection = connection
        self._base = keyspace.storage(storage_number)

    async def free(self, freed: Sequence[FreedSlots]) -> list[bool]:
        replies = await self._connection.pipeline(
            [
                (
                    *("FCALL", "kvcm_slots_free", 1, self._base, one.file, one.slots_in_file),
                    *(int(one.is_second_pass), *one.slots),
                )
                for one in freed
            ]
        )
        return [reply == 1 for reply in replies]

    async def forget(self, files: Sequence[str]) -> None:
        for at in range(0, len(files), CHUNK):
            await self._connection.call("FCALL", "kvcm_slots_forget", 1, self._base, *files[at : at + CHUNK])


class RedisRangeLedger:
    """Taken ranges of one memory segment."""

    def __init__(self, index: RedisIndex, number: int) -> None:
        self._index = index
        self._number = number

    async def give_back(self, range_ids: Sequence[int]) -> None:
        await pools.give_back(self._index, self._number, range_ids)
