"""Makes a shard whole that lost single keys (core.damage), from what the others hold (lua/6_damage.lua).

It goes on under traffic: every step is a function of its own that looks again before it changes
anything. What cannot be known any more: when runs were used, and which objects were on a lost list
of deletions without a block (they become orphans).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import msgpack
import redis

from kvcm_platform.core.damage import Pulse
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import LocationStatus

from . import codec, keyspace
from .pending import QUARANTINE_MS
from .placed_client import PlacedClient
from .recount import count_shard, repair_shard
from .redis_index import RedisIndex
from .scanning import SCAN_COUNT, fields_of
from .shards import ShardRef
from .usage import push

SAMPLES = 8
"""Blocks and runs of a shard that a look picks at random: what grew again since it was lost shows in time."""
KEYS_A_CALL = 128
RUNS_A_CALL = 32
NAMES_A_CALL = 256
COUNTED_AT_ONCE = 200_000
"""So many blocks and deletions are counted in one call at most, which holds the server up for 0.3 s."""
KEEP_SECONDS = 86_400.0
_SESSION_ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class Damage:
    """What was found of one shard or group. Times are unix seconds; `mended_at` is None until it is whole."""

    subject: str
    group: str
    lost: tuple[str, ...]
    found_at: float
    mended_at: float | None = None
    blocks: int = 0
    """Blocks that are gone with what was lost."""
    trouble: str = ""
    """Why it could not be made whole so far."""

    def packed(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def unpacked(cls, raw: bytes) -> Damage:
        fields = json.loads(raw)
        return cls(**{**fields, "lost": tuple(fields["lost"])})

    @property
    def sentence(self) -> str:
        what = f"{self.subject} lost keys in Redis by itself ({', '.join(self.lost)})"
        if self.mended_at is None:
            return f"{what} and is not whole again: {self.trouble.rstrip('.') or 'it is being mended'}."
        gone = f"; {self.blocks} blocks are misses now" if self.blocks else ""
        return f"{what} and was made whole{gone}. Is its maxmemory-policy noeviction?"


def damages(client: redis.Redis | PlacedClient) -> list[Damage]:
    """What was found lately, oldest first. Raises redis.RedisError."""
    return sorted(map(Damage.unpacked, client.hvals(keyspace.DAMAGE)), key=lambda one: one.found_at)


async def known(index: RedisIndex, keys: Sequence[str]) -> dict[str, Damage]:
    """What is on record of these base keys. Raises redis.RedisError."""
    rows = await index.connection.call("HMGET", keyspace.DAMAGE, *keys)
    return {key: Damage.unpacked(raw) for key, raw in zip(keys, rows, strict=True) if raw is not None}


async def note(index: RedisIndex, found: Mapping[str, Damage], now: float) -> None:
    """Puts them on record by their keys, and takes off what is older than KEEP_SECONDS."""
    call = index.connection.call
    flat = await call("HGETALL", keyspace.DAMAGE)
    rows = dict(zip(flat[::2], flat[1::2], strict=True))
    old = [key for key, raw in rows.items() if Damage.unpacked(raw).found_at < now - KEEP_SECONDS]
    if old:
        await call("HDEL", keyspace.DAMAGE, *old)
    if found:
        fields = (part for key, one in found.items() for part in (key, one.packed()))
        await call("HSET", keyspace.DAMAGE, *fields)


async def pulses(index: RedisIndex, shards: Sequence[ShardRef]) -> list[Pulse]:
    """One a shard. Raises redis.RedisError."""
    replies = await index.connection.pipeline(
        [("FCALL", "kvcm_pulse", 1, shard.base, SAMPLES) for shard in shards]
    )
    return [Pulse(*map(int, reply)) for reply in replies]


async def vector_sequences(index: RedisIndex, shards: Sequence[ShardRef]) -> list[tuple[int, int]]:
    """(generation, sequence) of each shard as its group has it; zeros where it has none."""
    rows = await index.connection.pipeline(
        [("HGET", keyspace.group_vectors(keyspace.group(one.group_number)), one.name) for one in shards]
    )
    vectors = [msgpack.unpackb(row)[:2] if row else (0, 0) for row in rows]
    return [(int(generation), int(sequence)) for generation, sequence in vectors]


class Mending:
    """Of one shard. `run` may be stopped anywhere and begun again."""

    def __init__(self, index: RedisIndex, entry: InstanceEntry, shard: ShardRef, delay_ms: int) -> None:
        """`delay_ms`: how long readers may go on with what is to be deleted."""
        self._index = index
        self._entry = entry
        self._shard = shard
        self._delay_ms = delay_ms
        self._sessions: set[str] = set()
        self.blocks_lost = 0

    async def run(self, sequence: int) -> None:
        """`sequence`: the group's of this shard. Raises StillChanging where it is too large to be counted
        at once and never stands still, redis.RedisError.
        """
        await self._function("kvcm_mend_begin", sequence)
        await self._blocks()
        await self._runs()
        await self._pending()
        await self._deadlines("w", keyspace.sessions, keyspace.session_deadlines)
        if not self._shard.shard:
            await self._deadlines("t", keyspace.tickets, keyspace.ticket_deadlines)
        await self._usage()
        await push(self._index.connection, self._shard)

    async def _function(self, name: str, *args: object) -> int:
        reply = await self._index.function(name, self._shard.base, *args)
        return int(reply)

    async def _blocks(self) -> None:
        chunk: dict[bytes, bytes] = {}
        async for key, record in fields_of(self._index, keyspace.blocks(self._shard.base)):
            chunk[key] = record
            if len(chunk) >= KEYS_A_CALL:
                await self._mend(chunk)
                chunk = {}
        if chunk:
            await self._mend(chunk)

    async def _mend(self, chunk: dict[bytes, bytes]) -> None:
        writing = {
            one.location_id
            for record in chunk.values()
            for one in codec.locations(record)
            if one.status == LocationStatus.WRITING
        }
        if writing - self._sessions:
            # Read after the blocks: a session that wrote one of them and is not there now is over, or lost.
            # The function tells these apart: of one that is over nothing is being written.
            self._sessions = await self._open_sessions()
        lost = "".join(sorted(writing - self._sessions))
        await self._function("kvcm_mend", self._delay_ms, lost, b"".join(chunk))

    async def _open_sessions(self) -> set[str]:
        """Location ids of the shard's sessions."""
        found = set()
        async for name, raw in fields_of(self._index, keyspace.sessions(self._shard.base)):
            if len(name) == _SESSION_ID_BYTES:
                found.add(codec.SessionHeader.unpack(raw).location_id)
        return found

    async def _runs(self) -> None:
        runs = [name async for name, _ in fields_of(self._index, keyspace.runs(self._shard.base))]
        known = set(runs)
        runs += [one async for one in self._members(keyspace.recency(self._shard.base)) if one not in known]
        for at in range(0, len(runs), RUNS_A_CALL):
            self.blocks_lost += await self._function("kvcm_mend_runs", *runs[at : at + RUNS_A_CALL])

    async def _pending(self) -> None:
        base = self._shard.base
        names = {name async for name, _ in fields_of(self._index, keyspace.pending(base))}
        names |= {name async for name in self._members(keyspace.pending_due(base))}
        for part in _parts(list(names)):
            await self._function("kvcm_mend_pending", self._delay_ms, QUARANTINE_MS, *part)

    async def _deadlines(self, which: str, held: Callable[[str], str], due: Callable[[str], str]) -> None:
        base = self._shard.base
        names = {
            name async for name, _ in fields_of(self._index, held(base)) if len(name) == _SESSION_ID_BYTES
        }
        names |= {name async for name in self._members(due(base))}
        for part in _parts(list(names)):
            await self._function("kvcm_mend_deadlines", which, *part)

    async def _usage(self) -> None:
        if await self._function("kvcm_mend_usage", COUNTED_AT_ONCE) >= 0:
            return
        await repair_shard(self._index, await count_shard(self._index, self._entry, self._shard))

    async def _members(self, name: str) -> AsyncIterator[bytes]:
        """Members of a sorted set: those that are there all the time at least once."""
        cursor = b"0"
        while True:
            reply = await self._index.connection.call("ZSCAN", name, cursor, "COUNT", SCAN_COUNT)
            cursor = reply[0]
            for member in reply[1][::2]:
                yield member
            if cursor == b"0":
                return


def _parts(names: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [names[at : at + NAMES_A_CALL] for at in range(0, len(names), NAMES_A_CALL)]
