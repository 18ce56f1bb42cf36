"""Repairs what a crash or a silent client left: expired sessions, lost pushes, stale reservations.

Everything here may run on any process, at any time and several times at once: each step is a
compare-and-set on the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgpack

from kvcm_platform.core.ports import WritePlan
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Quota, StorageEntry

from . import codec, keyspace, placing, tickets
from .link import RESERVATION_MARGIN_MS
from .redis_index import RedisIndex
from .sessions import free_place
from .shards import ShardRef
from .storage_refs import number_of
from .usage import push

BATCH = 200


@dataclass(frozen=True, slots=True)
class SweptShard:
    """A shard and, while its instance is registered, what its blocks looked like."""

    shard: ShardRef
    instance: InstanceEntry


async def sweep_sessions(
    index: RedisIndex, swept: SweptShard, storages: Sequence[StorageEntry], *, is_forced: bool = False
) -> int:
    """Fails open sessions of a shard past their deadline and completes those that a crash left finishing.

    With `is_forced` (a removed instance) open sessions fail at once. Returns the number ended. One that
    has a ticket ends with it (tickets.sweep).
    """
    base = swept.shard.base
    limit = "+inf" if is_forced else index.now_ms()
    ids = await index.connection.call(
        "ZRANGEBYSCORE", keyspace.session_deadlines(base), "-inf", limit, "LIMIT", 0, BATCH
    )
    ended = 0
    for raw_id in ids:
        session_id = raw_id.decode()
        if swept.instance.shards > 1 and await tickets.read(index, swept.instance, session_id) is not None:
            continue
        if await end_session(index, swept, storages, session_id, is_forced=is_forced):
            ended += 1
            await free_place(index, swept.shard.group_number, session_id)
    return ended


async def end_session(
    index: RedisIndex,
    swept: SweptShard,
    storages: Sequence[StorageEntry],
    session_id: str,
    *,
    is_forced: bool,
) -> bool:
    """Ends one shard's session; False when it was gone, or moved on meanwhile."""
    shard = swept.shard
    raw, keys = await index.connection.call(
        "HMGET", keyspace.sessions(shard.base), session_id, f"{session_id}:k"
    )
    if raw is None:
        await index.connection.call("ZREM", keyspace.session_deadlines(shard.base), session_id)
        await free_place(index, shard.group_number, session_id)
        return False
    header = codec.SessionHeader.unpack(raw)
    if header.state == codec.SESSION_OPEN:
        pairs = _never_inserted(index, swept, storages, header, keys, session_id)
        is_given_up = not pairs and header.inserted < header.count
        return await index.sessions.fail(
            shard, session_id, header.inserted, pairs, is_forced=is_forced, is_given_up=is_given_up
        )
    reply = await index.function("kvcm_finish_next", shard.base, session_id, 0)
    return await index.sessions.complete(shard, session_id, reply)


def _never_inserted(
    index: RedisIndex,
    swept: SweptShard,
    storages: Sequence[StorageEntry],
    header: codec.SessionHeader,
    keys: bytes,
    session_id: str,
) -> list[bytes]:
    """(key, entry) pairs of the blocks whose insert did not happen: they hold slots in shared files."""
    instance = swept.instance
    if header.inserted >= header.count or not instance.location_spec_infos:
        return []
    number = number_of(header.storage_ref)
    storage = next((one for one in storages if number in one.numbers), None)
    if storage is None:
        return []
    # The session remembers how many slots a file had; the storage's settings may have changed since.
    spec = {**storage.spec, "key_count_per_file": header.per_file}
    storage = replace(storage, number=number, spec=spec)
    placed = placing.unpack_placement(header.placement, instance, swept.shard.shard)
    plan = WritePlan(
        instance=instance,
        group=GroupEntry(instance.group, instance.group_number, (), Quota(0)),
        session_id=session_id,
        location_id=header.location_id,
        keys=codec.unpack_keys(keys),
        depths=(),
        shapes=placed.shapes,
        shape_of=placed.shape_of,
        object_names=placed.object_names,
        places=placed.places,
        insert_by_ms=header.insert_by_ms,
        deadline_ms=header.deadline_ms,
    )
    entries = placing.build_entries(plan, storage, index.now_ms(), swept.shard.shard)
    return placing.never_inserted(plan, entries, header.inserted)


async def sweep_pushes(index: RedisIndex, shards: Iterable[ShardRef]) -> int:
    """Pushes every shard whose usage is ahead of what its group knows. Returns the number pushed."""
    shards = list(shards)
    commands = [("HMGET", shard.base, "gen", "seq") for shard in shards]
    truths = await index.connection.pipeline(commands)
    known = await index.connection.pipeline(
        [("HGET", keyspace.group_vectors(keyspace.group(s.group_number)), s.name) for s in shards]
    )
    pushed = 0
    for shard, (generation, sequence), vector in zip(shards, truths, known, strict=True):
        if sequence is None:
            continue
        seen = tuple(msgpack.unpackb(vector)[:2]) if vector else None
        has_content = seen is None and await index.connection.call("HLEN", shard.base) > _BARE_FIELDS
        if (seen is not None and seen != (int(generation), int(sequence))) or has_content:
            await push(index.connection, shard)
            pushed += 1
    return pushed


_BARE_FIELDS = 3
"""gen, seq and epoch: the push of a usage hash without figures leaves no row in the group."""


async def sweep_reservations(index: RedisIndex, group_number: int) -> int:
    """Gives back reservations whose Start cannot insert any more. Returns their number."""
    base = keyspace.group(group_number)
    latest = index.now_ms() - RESERVATION_MARGIN_MS
    fields = await index.connection.call(
        "ZRANGEBYSCORE", keyspace.group_reservation_deadlines(base), "-inf", latest, "LIMIT", 0, BATCH
    )
    if not fields:
        return 0
    for name in {field.decode().partition("|")[2] for field in fields}:
        number, _, shard = name.partition(":")
        # After this push only what was never inserted is still reserved.
        await push(index.connection, ShardRef(int(number), int(shard), group_number))
    await index.connection.call("FCALL", "kvcm_release", 1, base, *fields)
    return len(fields)
