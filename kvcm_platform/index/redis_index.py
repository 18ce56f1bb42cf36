"""The block index in Redis (`core.ports.BlockIndex`): reads, and the phases of a write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.masks import Mask
from kvcm_platform.core.migration import capacity_of
from kvcm_platform.core.placement import Serving
from kvcm_platform.core.places import NoRoom, PoolPlaces
from kvcm_platform.core.ports import (
    Prefix,
    Record,
    Removed,
    TrimMode,
    WriteLimits,
    WritePlan,
)
from kvcm_platform.core.queries import match_reads
from kvcm_platform.core.reclaim.marks import Scope, Subject
from kvcm_platform.core.registry import InstanceEntry, StorageEntry
from kvcm_platform.core.types import WIRE_STORAGE_TYPE, StorageType
from kvcm_platform.core.writes import SESSION_GONE

from . import codec, gone, keyspace, records, tickets, trims
from .connection import READ_SECONDS, Connection, IndexUnavailable, StaleGeneration
from .life import Life
from .pools import Pools
from .recency import RecencyBuffer
from .sessions import CHUNK, Sessions, release
from .shards import ShardRef, by_shard, shards_of
from .trims import Span
from .usage import UsagePusher
from .verifying import concealed
from .waking import Waker

MAX_LIVES = 3

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


class RedisIndex:
    """Adapter of one process. `pusher` and `recency` are flushed by the process's background loop."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.waker = Waker(connection)
        self.pusher = UsagePusher(connection, self.waker)
        self.recency = RecencyBuffer(self)
        self.sessions = Sessions(self)
        self.pools = Pools(self)
        self.touch = self.recency.touch
        self.on_removal: Callable[[InstanceEntry], None] = lambda instance: None
        """Called after this process removed blocks of an instance."""
        self.fence = 0
        """Number of the background duty whose work this is; 0 = none."""
        self.duty = ""
        """Name of that duty where it has a lease of its own."""
        self.touch_keys = self.recency.touch_keys

    def now_ms(self) -> int:
        return self.connection.now_ms()

    @guarded
    async def read_clock(self, instance: InstanceEntry) -> int:
        """Blocks are stamped by the server that holds them; what is learnt is never behind its answer."""
        server = self.connection.server_of(keyspace.instance(instance.number, 0))
        await server.learn_clock()
        return server.now_ms()

    async def function(self, name: str, base: str, *args: Any) -> Any:
        """A state-changing function, the generation in front; repeated once when that has moved on.

        Raises Fenced when the work belongs to a duty whose lease another process took over.
        """
        for _ in range(2):
            generation = self.connection.generation_of(base)
            caller = f"{generation}:{self.fence}" if self.fence else generation
            if self.duty:
                caller = f"{caller}:{self.duty}"
            try:
                return await self.connection.call("FCALL", name, 1, base, caller, *args)
            except StaleGeneration:
                continue
        raise IndexUnavailable("the server's generation keeps changing")

    async def read_records(self, instance: InstanceEntry, keys: Sequence[int]) -> list[Record]:
        """What is in doubt after a rollback (index/life.py) shows as being written: it exists.

        Raises IndexUnavailable, which background work waits out; `records` is the same for calls.
        """
        server = self.connection.server_of(keyspace.instance(instance.number, 0))
        for _ in range(MAX_LIVES):
            generation, life = server.generation, server.life
            if life.is_undecided:
                await server.learn_verdict()
            hidden = await self._unchecked(instance, life) if life.doubt else set()
            found = await self._read(instance, keys)
            if server.generation == generation:
                return concealed(found, keys, instance.shards, hidden) if hidden else found
        raise IndexUnavailable("the index's generation keeps changing")

    records = guarded(read_records)

    async def require_no_doubt(self, instance: InstanceEntry) -> None:
        """For those who read records as they lie there: in doubt they may tell of objects that are gone.

        Raises DomainError(NOT_READY), IndexUnavailable.
        """
        server = self.connection.server_of(keyspace.instance(instance.number, 0))
        if server.life.is_undecided:
            await server.learn_verdict()
        if server.life.doubt and await self._unchecked(instance, server.life):
            raise DomainError(Code.NOT_READY, f"the index of {instance.instance_id} is being checked")

    async def _unchecked(self, instance: InstanceEntry, life: Life) -> set[int]:
        """Numbers of the instance's shards that are in doubt, asked before their blocks are read."""
        shards = [shard for shard in shards_of(instance) if not life.trusts(shard.base)]
        checked = await self.connection.pipeline(
            [("HGET", shard.base, "checked") for shard in shards], timeout=READ_SECONDS
        )
        hidden = set()
        for shard, number in zip(shards, checked, strict=True):
            if int(number or 0) >= life.doubt:
                life.trust(shard.base)
            else:
                hidden.add(shard.shard)
        return hidden

    async def _read(self, instance: InstanceEntry, keys: Sequence[int]) -> list[Record]:
        if len(keys) == 0:
            return []
        if instance.shards > 1:
            return await self._spread_records(instance, keys)
        name = keyspace.blocks(keyspace.instance(instance.number, 0))
        if len(keys) <= CHUNK:
            found: list[Record] = await self.connection.call(
                "HMGET", name, *_fields(keys), timeout=READ_SECONDS
            )
            return found
        parts = await self.connection.pipeline(
            [("HMGET", name, *_fields(keys[at : at + CHUNK])) for at in range(0, len(keys), CHUNK)],
            timeout=READ_SECONDS,
        )
        return [record for part in parts for record in part]

    async def _spread_records(self, instance: InstanceEntry, keys: Sequence[int]) -> list[Record]:
        fields = _fields(keys)
        commands: list[tuple[Any, ...]] = []
        order: list[int] = []
        for number, indexes in by_shard(keys, instance.shards).items():
            name = keyspace.blocks(keyspace.instance(instance.number, number))
            for at in range(0, len(indexes), CHUNK):
                part = indexes[at : at + CHUNK]
                commands.append(("HMGET", name, *(fields[i] for i in part)))
                order += part
        found: list[Record] = [None] * len(keys)
        replies = await self.connection.pipeline(commands, timeout=READ_SECONDS)
        for i, record in zip(order, (record for reply in replies for record in reply), strict=True):
            found[i] = record
        return found

    @guarded
    async def prefix(
        self, instance: InstanceEntry, keys: Sequence[int], serving: Serving, depth: int, tick: int
    ) -> Prefix:
        """The longest served prefix of `keys`, read in growing chunks up to the first miss."""
        found: list[bytes] = []
        for begin, end in match_reads(len(keys)):
            read = await self.records(instance, keys[begin:end])
            before = len(found)
            for record in read:
                wire = records.served(record, instance, serving)
                if wire is None:
                    break
                found.append(wire)
            hits = len(found) - before
            self.touch(instance, read[:hits], depth + begin, tick)
            if hits < len(read):
                break
        return Prefix(len(found), found)

    @guarded
    async def reserve(self, plan: WritePlan, candidates: Sequence[StorageEntry]) -> StorageEntry:
        kinds = [WIRE_STORAGE_TYPE[storage.type] for storage in candidates]
        shards = shards_of(plan.instance)
        sizes = {0: plan.size}
        if len(shards) > 1:
            sizes = {number: part.size for number, (_, part) in tickets.parts_of(plan).items()}
        pairs = [text for number, size in sizes.items() for text in (shards[number].name, size)]
        reply = await self.connection.call(
            *("FCALL", "kvcm_reserve", 1, keyspace.group(plan.group.number), plan.session_id),
            *(plan.insert_by_ms, plan.size, len(kinds), *kinds, *pairs),
        )
        name = plan.group.name
        match reply[0]:
            case b"OK":
                if len(reply) > 2:
                    self.waker.marked(plan.group.number)
                return candidates[int(reply[1])]
            case b"GROUP":
                if plan.size <= int(reply[2]):  # nothing makes room for more than there can be
                    await self.waker.refused(name, [Subject(Scope.GROUP, name)], plan.size)
                raise DomainError(
                    Code.CAPACITY,
                    f"group {plan.group.name}: {plan.size} more bytes would pass its quota of {int(reply[2])}"
                    f" ({int(reply[1])} are used or reserved)",
                )
            case b"TYPE":
                types = dict.fromkeys(storage.type for storage in candidates)
                limits = plan.group.quota.per_type
                fitting = [kind for kind in types if plan.size <= limits.get(kind, plan.size)]
                subjects = [Subject(Scope.STORAGE_TYPE, kind.value) for kind in fitting]
                await self.waker.refused(name, subjects, plan.size)
                names = ", ".join(storage.name for storage in candidates)
                raise DomainError(
                    Code.CAPACITY,
                    f"group {plan.group.name}: the type quota of each candidate is used up ({names})",
                )
        raise DomainError(Code.NOT_READY, f"group {plan.group.name}: its limits are not published yet")

    @guarded
    async def allocate(
        self, plan: WritePlan, storage: StorageEntry
    ) -> tuple[StorageEntry, PoolPlaces] | None:
        if storage.type is not StorageType.TAIR_MEMPOOL:
            return None
        try:
            return await self.pools.allocate(plan, storage)
        except NoRoom:
            # Another candidate may take it: nothing is refused yet, but a migration may have work.
            self.waker.marked(plan.group.number)
            raise

    async def out_of_memory(self, plan: WritePlan, storages: Sequence[StorageEntry]) -> None:
        subjects = [
            Subject(Scope.STORAGE, one.name)
            for one in storages
            if plan.size <= (capacity_of(one) or plan.size)
        ]
        await self.waker.refused(plan.group.name, subjects, plan.size)

    @guarded
    async def release(self, plan: WritePlan) -> None:
        await release(self, plan, shards_of(plan.instance))

    @guarded
    async def write(
        self, plan: WritePlan, storage: StorageEntry | None, serving: Serving, limits: WriteLimits
    ) -> tuple[list[bytes], set[int]]:
        try:
            if plan.instance.shards > 1:
                written = await tickets.write(self, plan, storage, serving, limits)
            else:
                touched = records.runs(plan.existing, 0)
                (shard,) = shards_of(plan.instance)
                written = await self.sessions.open(plan, shard, storage, serving, limits, touched)
        except DomainError as error:
            if error.code is Code.CAPACITY:  # of keys: all else was reserved before
                wanted = len(plan.keys) - len(plan.replaced)
                if wanted <= limits.max_key_count:
                    subject = Subject(Scope.KEYS, plan.instance.instance_id)
                    await self.waker.refused(plan.group.name, [subject], wanted)
            raise
        self.pools.settled(plan)
        return written

    @guarded
    async def session_names(self, instance: InstanceEntry, session_id: str) -> list[str]:
        if instance.shards > 1:
            names = await tickets.names(self, instance, session_id)
        else:
            names = await self.sessions.names(shards_of(instance)[0], session_id)
        if names is None:
            raise DomainError(Code.INTERNAL, SESSION_GONE)
        return names

    @guarded
    async def finish(self, instance: InstanceEntry, session_id: str, mask: Mask) -> tuple[int, int]:
        if mask is None:
            raise invalid("success_blocks", "is missing")
        if instance.shards > 1:
            return await tickets.finish(self, instance, session_id, mask)
        (shard,) = shards_of(instance)
        flags = mask if isinstance(mask, int) else "".join("1" if success else "0" for success in mask)
        reply = await self.sessions.finish(shard, session_id, flags)
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
        await asyncio.shield(asyncio.ensure_future(self.sessions.complete(shard, session_id, reply)))
        return written, count - written

    @guarded
    async def remove(self, instance: InstanceEntry, keys: Sequence[int], delay_ms: int) -> Removed:
        total = Removed(0, 0)
        shards, span = shards_of(instance), Span("all", delay_ms, reason=gone.REMOVED)
        for number, indexes in by_shard(keys, instance.shards).items():
            for at in range(0, len(indexes), CHUNK):
                chunk = [keys[i] for i in indexes[at : at + CHUNK]]
                part = await self.remove_chunk(instance, shards[number], span, chunk)
                total = Removed(total.locations + part.locations, total.size + part.size)
        return total

    async def remove_chunk(
        self, instance: InstanceEntry, shard: ShardRef, span: Span, keys: Sequence[int]
    ) -> Removed:
        """Marks the locations of these keys, all of one shard, that lie in the span."""
        count, size = await self.function(
            *("kvcm_remove", shard.base, span.mode, span.delay_ms, span.begin_ms, span.end_ms),
            *(codec.pack_keys(keys), span.reason),
        )
        if count:
            self.pusher.mark(shard)
            self.on_removal(instance)
        return Removed(count, int(size))

    @guarded
    async def trim(
        self, instance: InstanceEntry, mode: TrimMode, begin_ms: int, end_ms: int, delay_ms: int
    ) -> None:
        await trims.trim(self, trims.Trim(instance, mode, begin_ms, end_ms, delay_ms))


def _fields(keys: Sequence[int]) -> list[bytes]:
    blob = codec.pack_keys(keys)
    return [blob[at : at + 8] for at in range(0, len(blob), 8)]
