"""Pending deletions (core.deletion.PendingList) and notes of backends (storage.backend.Ledgers) in Redis."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from google.protobuf.message import DecodeError
from redis.exceptions import RedisError

from kvcm_platform.core.deletion import PendingDeletion, PendingObject
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.writes import MAX_WRITE_TIMEOUT

from . import codec, keyspace, pools
from .connection import Connection, IndexUnavailable
from .redis_index import RedisIndex
from .shards import ShardRef

QUARANTINE_MS = MAX_WRITE_TIMEOUT * 1000
"""Failed writes are freed once more after so long, at least: a late writer may still come."""
DURABLE_MS = 3000
CHUNK = 128
UNREADABLE_MS = 600_000
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
    def __init__(self, index: RedisIndex, shard: ShardRef, quarantine_ms: int = QUARANTINE_MS) -> None:
        """`quarantine_ms`: how long after its first freeing the place of a failed write is freed again."""
        self._index = index
        self._shard = shard
        self._quarantine_ms = quarantine_ms

    async def due(self, limit: int) -> list[PendingDeletion]:
        reply = await self._index.connection.call("FCALL", "kvcm_due", 1, self._shard.base, limit)
        found = []
        for member, value in zip(reply[1::2], reply[2::2], strict=True):
            try:
                found.append(decode(member, value))
            except (ValueError, IndexError, StopIteration, DecodeError) as error:
                # One that cannot be read must not keep the others waiting.
                log.error("a pending deletion cannot be read", member=member.hex(), reason=str(error))
                await self.postpone([value[:1] + member], UNREADABLE_MS)
        return found

    async def durable(self) -> None:
        """WAITAOF covers the writes of the connection that asks, so a write comes first.

        A server without AOF was set up to forget: there is nothing to wait for.
        """
        base, connection = self._shard.base, self._index.connection
        try:
            _, (local, _) = await connection.pipeline(
                [
                    ("HSET", keyspace.durable(base), "at", connection.now_ms()),
                    ("WAITAOF", 1, 0, DURABLE_MS),
                ],
                timeout=DURABLE_MS / 1000 + 2,
                at=base,
            )
        except IndexUnavailable:
            raise
        except RedisError as error:
            if "appendonly is disabled" in str(error):
                return
            raise
        if local < 1:
            raise IndexUnavailable("the server's log was not written in time")

    async def done(self, handles: Sequence[bytes]) -> None:
        await self._over(handles, is_orphaned=False)

    async def _over(self, handles: Sequence[bytes], *, is_orphaned: bool) -> None:
        for at in range(0, len(handles), CHUNK):
            await self._index.function(
                *("kvcm_deleted", self._shard.base, self._quarantine_ms, int(is_orphaned)),
                *handles[at : at + CHUNK],
            )
        self._index.pusher.mark(self._shard)

    async def postpone(self, handles: Sequence[bytes], delay_ms: int) -> None:
        for at in range(0, len(handles), CHUNK):
            await self._index.function("kvcm_postpone", self._shard.base, delay_ms, *handles[at : at + CHUNK])

    async def orphan(self, deletions: Sequence[PendingDeletion]) -> None:
        for deletion in deletions:
            member = self._shard.base.encode() + deletion.handle[1:]
            await self._index.connection.call(
                *("FCALL", "kvcm_orphan", 1, keyspace.storage(deletion.storage_number)),
                *(member, deletion.size, deletion.entry),
            )
        await self._over([deletion.handle for deletion in deletions], is_orphaned=True)


class RedisSlotLedger:
    """Freed slots of the files of one storage."""

    def __init__(self, connection: Connection, storage_number: int) -> None:
        self._connection = connection
        self._base = keyspace.storage(storage_number)

    async def free(
        self, file: str, slots_in_file: int, slots: Sequence[int], *, is_second_pass: bool
    ) -> bool:
        reply = await self._connection.call(
            *("FCALL", "kvcm_slots_free", 1, self._base, file, slots_in_file, int(is_second_pass)), *slots
        )
        return bool(reply == 1)

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
