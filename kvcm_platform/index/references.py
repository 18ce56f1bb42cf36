"""Everything by which the index refers to objects on storages: records, pending deletions, sessions, notes.

What moves on while it is read is seen where it was or where it went: sessions are read before
records, records before pending deletions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence

from google.protobuf.message import DecodeError

from kvcm_platform.core.deletion import PendingDeletion
from kvcm_platform.core.registry import InstanceEntry

from . import codec, keyspace
from .pending import decode
from .redis_index import RedisIndex
from .scanning import fields_of
from .shards import shards_of

LOCATION_ID = 8
"""Characters of a session's id, its last ones, that name what it writes."""
MOST = 1 << 20
"""Far above KVCM_MAX_SESSIONS."""
_CANNOT_BE_READ = (ValueError, IndexError, StopIteration, DecodeError)


class Unreadable(Exception):
    """Something refers to objects in a way that cannot be read: nobody can tell to which."""


async def ids_being_written(index: RedisIndex, instance: InstanceEntry) -> set[str]:
    """Location ids of the open write sessions of an instance. Raises Unreadable."""
    keys = [keyspace.open_sessions(instance.number, instance.shards)]
    keys += [keyspace.session_deadlines(shard.base) for shard in shards_of(instance)]
    found: set[str] = set()
    for key in dict.fromkeys(keys):
        members = await index.connection.call("ZRANGEBYSCORE", key, "-inf", "+inf", "LIMIT", 0, MOST)
        if len(members) == MOST:
            raise Unreadable(f"{key} has more than {MOST} write sessions")
        found.update(member.decode()[-LOCATION_ID:] for member in members)
    return found


async def uris_of(
    index: RedisIndex, instance: InstanceEntry, elsewhere: frozenset[int]
) -> AsyncGenerator[str, None]:
    """URIs of an instance's blocks whatever their state, some more than once.

    Those on the storages with the numbers in `elsewhere` are left out. Raises Unreadable,
    redis.RedisError.
    """
    for shard in shards_of(instance):
        for key in (keyspace.blocks(shard.base), pending := keyspace.pending(shard.base)):
            async for name, value in fields_of(index, key):
                try:
                    record = codec.split_pending(value)[2] if key == pending else value
                    for location in codec.locations(record):
                        if location.storage_number not in elsewhere:
                            for _, uri in location.specs():
                                yield uri
                except _CANNOT_BE_READ as error:
                    raise Unreadable(f"{key} {name.hex()}: {error!r}") from error


async def noted_files(index: RedisIndex, numbers: Iterable[int]) -> AsyncGenerator[str, None]:
    """Paths of slot files some of whose slots are noted as freed."""
    for number in numbers:
        async for path, _ in fields_of(index, keyspace.slot_files(keyspace.storage(number))):
            yield path.decode()


class OrphanList:
    """Objects whose records were dropped while they stay (TS_REMOVE_ALL_META), of one storage's number."""

    def __init__(self, index: RedisIndex, number: int) -> None:
        self._index = index
        self._base = keyspace.storage(number)

    async def entries(self) -> AsyncGenerator[PendingDeletion, None]:
        """What is to be deleted; `handle` names it on the list. Raises Unreadable, redis.RedisError."""
        async for member, entry in fields_of(self._index, keyspace.orphans(self._base)):
            try:
                yield decode(member, b"o" + entry)
            except _CANNOT_BE_READ as error:
                raise Unreadable(f"{keyspace.orphans(self._base)} {member!r}: {error!r}") from error

    async def drop(self, deleted: Sequence[PendingDeletion]) -> int:
        """Takes entries off the list; returns how many were still on it."""
        args = [part for item in deleted for part in (item.handle[1:], item.size)]
        return int(await self._index.connection.call("FCALL", "kvcm_orphan_drop", 1, self._base, *args))
