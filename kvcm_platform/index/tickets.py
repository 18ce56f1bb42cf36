"""Writes of an instance with several shards: one ticket decides how all its shards' sessions end.

The ticket is opened before the first block is inserted. Finish and expiry decide it by
compare-and-set; whoever finds a decided ticket may carry it out, any number of times. A shard's
session without a ticket is what a crash between two shards left, and fails at its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.masks import Mask
from kvcm_platform.core.placement import Serving
from kvcm_platform.core.ports import WriteLimits, WritePlan
from kvcm_platform.core.registry import InstanceEntry, StorageEntry
from kvcm_platform.core.writes import SESSION_GONE

from . import codec, keyspace
from .sessions import free_place, refusal, release
from .shards import ShardRef, by_shard, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

ALL_FAILED = "F"
NO_LIMIT = 1 << 50


@dataclass(frozen=True, slots=True)
class Ticket:
    state: int
    keys: Sequence[int]
    verdict: str
    """Empty while it is open; else ALL_FAILED, or '1', '0' or '-' for each key."""


def parts_of(plan: WritePlan) -> dict[int, tuple[list[int], WritePlan]]:
    """Shard number -> (indexes of its keys in the plan, the plan of these alone)."""
    parts = {}
    for shard, indexes in by_shard(plan.keys, plan.instance.shards).items():
        renumbered = {at: plan.replaced[i] for at, i in enumerate(indexes) if i in plan.replaced}
        parts[shard] = (
            indexes,
            replace(
                plan,
                keys=[plan.keys[i] for i in indexes],
                depths=[plan.depths[i] for i in indexes],
                shape_of=[plan.shape_of[i] for i in indexes] if plan.shape_of else (),
                object_names=[plan.object_names[i] for i in indexes] if plan.object_names else (),
                replaced=renumbered,
                existing=(),
            ),
        )
    return parts


async def write(
    index: RedisIndex,
    plan: WritePlan,
    storage: StorageEntry | None,
    serving: Serving,
    limits: WriteLimits,
) -> tuple[list[bytes], set[int]]:
    """`BlockIndex.write` over several shards."""
    shards = shards_of(plan.instance)
    parts = parts_of(plan)
    index.recency.touch(plan.instance, plan.existing, 0, plan.tick_ms)
    await _open(index, plan, shards, list(parts), limits)
    results = await asyncio.gather(
        *(
            index.sessions.open(part, shards[n], storage, serving, WriteLimits(NO_LIMIT, NO_LIMIT), {})
            for n, (_, part) in parts.items()
        ),
        return_exceptions=True,
    )
    failure = next((result for result in results if isinstance(result, BaseException)), None)
    if failure is not None:
        with suppress(RedisError):
            await _abandon(index, plan, [storage] if storage else [])
        raise failure
    with suppress(RedisError):  # all is inserted: the announcement ends with the ticket at the latest
        await index.function("kvcm_ticket_placed", shards[0].base, plan.session_id)
    locations: dict[int, bytes] = {}
    for (indexes, _), result in zip(parts.values(), results, strict=True):
        assert not isinstance(result, BaseException)  # noqa: S101
        written, lost = result
        kept = [i for at, i in enumerate(indexes) if at not in lost]
        locations.update(zip(kept, written, strict=True))
    return [locations[i] for i in sorted(locations)], set(range(len(plan.keys))) - locations.keys()


async def _open(
    index: RedisIndex, plan: WritePlan, shards: Sequence[ShardRef], used: Sequence[int], limits: WriteLimits
) -> None:
    """Opens the ticket, or gives the reservation back and raises.

    The ticket announces its new keys before all are counted: so many Starts at once never pass
    `max_key_count`, though near it one may be refused that would have fitted a moment later.
    """
    growth = len(plan.keys) - len(plan.replaced)
    reply, *announced = await index.function(
        *("kvcm_ticket_open", shards[0].base, plan.session_id, plan.deadline_ms),
        *(codec.pack_keys(plan.keys), limits.max_sessions, growth),
    )
    if reply == b"OK" and growth:
        counts = await index.connection.pipeline([("HLEN", keyspace.blocks(shard.base)) for shard in shards])
        if sum(counts) + announced[0] > limits.max_key_count:
            reply = b"KEYS"
            await _abandon(index, plan, ())
    if reply != b"OK":
        await index.pools.give_up(plan, [shards[n] for n in used])
        await release(index, plan, [shards[n] for n in used])
        raise refusal(reply, plan, limits)


async def _abandon(index: RedisIndex, plan: WritePlan, storages: Sequence[StorageEntry]) -> None:
    shard = shards_of(plan.instance)[0]
    if await index.function("kvcm_ticket_decide", shard.base, plan.session_id, ALL_FAILED, "any"):
        await carry_out(index, plan.instance, storages, plan.session_id)


async def finish(index: RedisIndex, instance: InstanceEntry, session_id: str, mask: Mask) -> tuple[int, int]:
    """`BlockIndex.finish` over several shards."""
    ticket = await read(index, instance, session_id)
    if ticket is None or ticket.state == codec.SESSION_FINISHING:
        raise DomainError(Code.INTERNAL, SESSION_GONE)
    lost = await _lost(index, instance, session_id, ticket.keys)
    count = len(ticket.keys) - len(lost)
    flags = _flags(mask, count)
    following = iter(flags)
    verdict = "".join("-" if i in lost else next(following) for i in range(len(ticket.keys)))
    base = keyspace.instance(instance.number, 0)
    if not await index.function("kvcm_ticket_decide", base, session_id, verdict, "before"):
        raise DomainError(Code.INTERNAL, SESSION_GONE)
    # A caller that gives up waiting must not leave blocks behind: the rest goes on without it.
    await asyncio.shield(asyncio.ensure_future(carry_out(index, instance, (), session_id)))
    written = flags.count("1")
    return written, count - written


def _flags(mask: Mask, count: int) -> str:
    fits = mask <= count if isinstance(mask, int) else len(mask or ()) == count
    if not fits:
        raise invalid("success_blocks", f"does not fit the {count} locations of this write session")
    if isinstance(mask, int):
        return "1" * mask + "0" * (count - mask)
    return "".join("1" if success else "0" for success in mask or ())


async def read(index: RedisIndex, instance: InstanceEntry, session_id: str) -> Ticket | None:
    name = keyspace.tickets(keyspace.instance(instance.number, 0))
    raw, keys, verdict = await index.connection.call(
        "HMGET", name, session_id, f"{session_id}:k", f"{session_id}:m"
    )
    return None if raw is None else Ticket(raw[0], codec.unpack_keys(keys), (verdict or b"").decode())


async def _lost(index: RedisIndex, instance: InstanceEntry, session_id: str, keys: Sequence[int]) -> set[int]:
    """Indexes of the keys that another writer had meanwhile: they are not this session's."""
    parts = by_shard(keys, instance.shards)
    shards = shards_of(instance)
    blobs = await index.connection.pipeline(
        [("HGET", keyspace.sessions(shards[n].base), f"{session_id}:x") for n in parts]
    )
    return {
        indexes[at]
        for indexes, blob in zip(parts.values(), blobs, strict=True)
        for at in codec.unpack_indexes(blob)
    }


async def names(index: RedisIndex, instance: InstanceEntry, session_id: str) -> list[str] | None:
    """Names of the objects of an open session over all its shards, in order; None when it is not open."""
    ticket = await read(index, instance, session_id)
    if ticket is None or ticket.state == codec.SESSION_FINISHING:
        return None
    parts = by_shard(ticket.keys, instance.shards)
    shards = shards_of(instance)
    lost = await _lost(index, instance, session_id, ticket.keys)
    found: dict[int, str] = {}
    for number, indexes in parts.items():
        here = await index.sessions.names(shards[number], session_id)
        if here is None:
            return None
        found.update(zip((i for i in indexes if i not in lost), here, strict=True))
    return [found[i] for i in sorted(found)]


async def carry_out(
    index: RedisIndex, instance: InstanceEntry, storages: Sequence[StorageEntry], session_id: str
) -> bool:
    """Ends every shard's session as the decided ticket says, then drops it. May be repeated and raced.

    `storages` are needed to free what a crashed Start had named but not inserted.
    """
    ticket = await read(index, instance, session_id)
    if ticket is None or ticket.state != codec.SESSION_FINISHING:
        return False
    shards = shards_of(instance)
    ends: list[Any] = []
    for n, indexes in by_shard(ticket.keys, instance.shards).items():
        if ticket.verdict == ALL_FAILED:
            ends.append(_fail(index, instance, storages, shards[n], session_id))
        else:
            flags = "".join(ticket.verdict[i] for i in indexes).replace("-", "")
            ends.append(_finish(index, shards[n], session_id, flags))
    await asyncio.gather(*ends)
    await index.function("kvcm_ticket_drop", shards[0].base, session_id)
    return True


async def _finish(index: RedisIndex, shard: ShardRef, session_id: str, flags: str) -> None:
    reply = await index.sessions.finish(shard, session_id, flags, is_decided=True)
    await index.sessions.complete(shard, session_id, reply)


async def _fail(
    index: RedisIndex,
    instance: InstanceEntry,
    storages: Sequence[StorageEntry],
    shard: ShardRef,
    session_id: str,
) -> None:
    from .sweeps import SweptShard, end_session

    for _ in range(10):
        if await end_session(index, SweptShard(shard, instance), storages, session_id, is_forced=True):
            return
        if not await index.connection.call("HEXISTS", keyspace.sessions(shard.base), session_id):
            return


async def sweep(
    index: RedisIndex,
    instance: InstanceEntry,
    storages: Sequence[StorageEntry],
    batch: int,
    *,
    is_forced: bool,
) -> int:
    """Fails tickets past their deadline and carries out those that a crash left decided."""
    if instance.shards == 1:
        return 0
    base = keyspace.instance(instance.number, 0)
    limit = "+inf" if is_forced else index.now_ms()
    ids = await index.connection.call(
        "ZRANGEBYSCORE", keyspace.ticket_deadlines(base), "-inf", limit, "LIMIT", 0, batch
    )
    ended = 0
    for raw_id in ids:
        session_id = raw_id.decode()
        when = "any" if is_forced else "after"
        await index.function("kvcm_ticket_decide", base, session_id, ALL_FAILED, when)
        ended += await carry_out(index, instance, storages, session_id)
        await free_place(index, instance.group_number, session_id)
    return ended
