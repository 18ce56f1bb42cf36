"""MetaIndex records in Redis: one hash a shard, each shard a hash tag, so that a Cluster can spread them.

A batch within one shard is one server-side function. With several shards the number of records is
limited by reservations in a tag of the index's own (lua/7_meta_index.lua): room is reserved first,
then the shards are written, then their counts are pushed. A crash in between leaves counts that
are too high until a refused writer pushes them anew, never too low.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.index import codec, keyspace
from kvcm_platform.index.connection import Commands

from .batches import mixed
from .interface import START, IndexUsage, Outcome, Page
from .store import Expected, Write, full

OUTCOMES: dict[int, Outcome | None] = {
    ord("c"): Outcome.CREATED,
    ord("r"): Outcome.REPLACED,
    ord("d"): Outcome.DELETED,
    ord("m"): Outcome.MISSING,
    ord("x"): None,
}
USE_WITHIN_MS = 5000
"""A reservation that was not used by then is refused, and given back later."""
ATTEMPTS = 200
PAUSE_SECONDS = 0.005
MOST_SHARDS = 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_CURSOR = re.compile(rb"(\d{1,9}):(\d{1,20})")
_SHARD_SHIFT = 40
"""Shards are chosen by other bits of a key than locks are."""


class RedisStore:
    def __init__(self, commands: Commands, name: str, shard_count: int, max_records: int) -> None:
        self._commands = commands
        self._max_records = max_records
        self._base = keyspace.meta_index(name)
        self._shards = [keyspace.meta_index_shard(name, shard) for shard in range(shard_count)]

    @classmethod
    async def open(cls, commands: Commands, name: str, shard_count: int, max_records: int) -> RedisStore:
        """Raises DomainError: INVALID_ARGUMENT, or CONFLICT when it has another number of shards."""
        if not _NAME.fullmatch(name):
            raise invalid("name", f"{name[:128]!r} is not made of letters, digits, '.', '_' and '-'")
        if not 1 <= shard_count <= MOST_SHARDS:
            raise invalid("shards", f"{shard_count} is not within 1..{MOST_SHARDS}")
        known = await commands.call("FCALL", "kvcm_meta_open", 1, keyspace.meta_index(name), shard_count)
        if known != shard_count:
            raise DomainError(Code.CONFLICT, f"index {name} has {known} shards, not {shard_count}")
        return cls(commands, name, shard_count, max_records)

    def _shard_of(self, key: int) -> int:
        return (mixed(key) >> _SHARD_SHIFT) % len(self._shards)

    def _by_shard(self, keys: Sequence[int]) -> dict[int, list[int]]:
        """Shard -> positions of its keys."""
        found: dict[int, list[int]] = {}
        for position, key in enumerate(keys):
            found.setdefault(self._shard_of(key), []).append(position)
        return found

    async def read(self, keys: Sequence[int]) -> list[bytes | None]:
        records: list[bytes | None] = [None] * len(keys)
        parts = self._by_shard(keys)
        commands = [
            ("HMGET", keyspace.blocks(self._shards[shard]), *(_packed(keys[at]) for at in positions))
            for shard, positions in parts.items()
        ]
        for positions, reply in zip(parts.values(), await self._commands.pipeline(commands), strict=True):
            for position, record in zip(positions, reply, strict=True):
                records[position] = record
        return records

    async def write(self, writes: Sequence[Write]) -> list[Outcome | None]:
        if len(self._shards) > 1:
            return await self._write_with_reservations(writes)
        reply = await self._commands.call(*self._command(0, writes, self._max_records, "", 0))
        if reply == b"FULL":
            raise full(self._max_records)
        return [OUTCOMES[letter] for letter in reply]

    def _command(
        self, shard: int, writes: Sequence[Write], limit: int, reservation: str, use_by: int
    ) -> tuple[Any, ...]:
        args: list[Any] = []
        for write in writes:
            condition, expected = _condition(write.expected)
            operation = (b"d", b"") if write.record is None else (b"p", write.record)
            args += [_packed(write.key), condition, expected, *operation]
        return ("FCALL", "kvcm_meta_write", 1, self._shards[shard], limit, reservation, use_by, *args)

    # Several shards

    async def _write_with_reservations(self, writes: Sequence[Write]) -> list[Outcome | None]:
        """Each shard's part is done or not; what was refused is tried again, its room reserved anew."""
        outcomes: list[Outcome | None] = [None] * len(writes)
        waiting = self._by_shard([write.key for write in writes])
        for _ in range(ATTEMPTS):
            reservation = f"r:{secrets.token_hex(8)}"
            growth, use_by = await self._reserve(writes, waiting, reservation)
            replies = await self._commands.pipeline(
                [
                    self._command(shard, [writes[at] for at in positions], growth.get(shard, 0), name, use_by)
                    for shard, positions in waiting.items()
                    for name in [reservation if shard in growth else ""]
                ]
            )
            parts, waiting = waiting, {}
            changed: list[int] = []
            for (shard, positions), reply in zip(parts.items(), replies, strict=True):
                if reply in (b"FULL", b"LATE"):
                    waiting[shard] = positions
                    continue
                if shard in growth or b"d" in reply:
                    changed.append(shard)
                for position, letter in zip(positions, reply, strict=True):
                    outcomes[position] = OUTCOMES[letter]
            refused = [f"{reservation}|{shard}" for shard in waiting if shard in growth]
            if refused:
                await self._commands.call("FCALL", "kvcm_meta_release", 1, self._base, *refused)
            await self._push(changed)
            if not waiting:
                return outcomes
        raise DomainError(Code.CONFLICT, "others kept removing the records that were to be replaced")

    async def _reserve(
        self, writes: Sequence[Write], waiting: Mapping[int, list[int]], reservation: str
    ) -> tuple[dict[int, int], int]:
        """Room for the records that may be new: shard -> number, and the time (ms) to use it by."""
        is_fresh = False
        for _ in range(ATTEMPTS):
            growth = await self._growth(writes, waiting)
            if not growth:
                return {}, 0
            wanted = sum(growth.values())
            pairs = [part for pair in growth.items() for part in pair]
            is_granted, *state = await self._commands.call(
                *("FCALL", "kvcm_meta_reserve", 1, self._base, self._max_records, reservation, USE_WITHIN_MS),
                *pairs,
            )
            if is_granted:
                return growth, state[0]
            known, reserved = state
            if is_fresh and (known + wanted > self._max_records or not reserved):
                break
            # Counts may lag, and what others reserved may turn out not to be needed.
            await self._push(range(len(self._shards)))
            if is_fresh:
                await asyncio.sleep(PAUSE_SECONDS)
            is_fresh = True
        raise full(self._max_records)

    async def _growth(self, writes: Sequence[Write], waiting: Mapping[int, list[int]]) -> dict[int, int]:
        """Keys a shard that a write may create: they have no record now."""
        candidates: dict[int, None] = {}
        for positions in waiting.values():
            for position in positions:
                write = writes[position]
                if write.record is not None and (write.expected in (None, Expected.ANYTHING)):
                    candidates[write.key] = None
        growth: dict[int, int] = {}
        if candidates:
            keys = list(candidates)
            for key, record in zip(keys, await self.read(keys), strict=True):
                if record is None:
                    shard = self._shard_of(key)
                    growth[shard] = growth.get(shard, 0) + 1
        return growth

    async def _push(self, shards: Sequence[int]) -> None:
        """Tells the shared count what these shards hold; may be done by anyone at any time."""
        if not shards:
            return
        call = self._commands.pipeline
        states = await call([("FCALL", "kvcm_meta_state", 1, self._shards[shard]) for shard in shards])
        pushes: list[tuple[Any, ...]] = []
        acknowledgements: list[tuple[Any, ...]] = []
        for shard, (at, count, flat) in zip(shards, states, strict=True):
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            used = [name for name in fields if name.startswith(b"r:")]
            version = (self._commands.generation, int(fields.get(b"seq", 0)))
            pushes.append(("FCALL", "kvcm_meta_push", 1, self._base, shard, *version, count, at, *used))
            if used:
                acknowledgements.append(("FCALL", "kvcm_meta_pushed", 1, self._shards[shard], *used))
        await call(pushes)
        await call(acknowledgements)

    # Reading

    async def scan(self, cursor: bytes, limit: int) -> Page:
        shard, position = 0, b"0"
        if cursor != START:
            match = _CURSOR.fullmatch(cursor)
            if match is None or int(match[1]) >= len(self._shards):
                raise invalid("cursor", "is not one of this index")
            shard, position = int(match[1]), match[2]
        position, flat = await self._commands.call(
            "HSCAN", keyspace.blocks(self._shards[shard]), position, "COUNT", limit
        )
        if position == b"0":
            shard += 1
        following = START if shard == len(self._shards) else b"%d:%s" % (shard, position)
        keys = codec.unpack_keys(b"".join(flat[::2]))
        return Page(list(zip(keys, flat[1::2], strict=True)), following)

    async def random_sample(self, n: int) -> list[int]:
        names = [keyspace.blocks(base) for base in self._shards]
        counts = await self._commands.pipeline([("HLEN", name) for name in names])
        shares = _shares(counts, n)
        found = await self._commands.pipeline(
            [("HRANDFIELD", name, share) for name, share in zip(names, shares, strict=True) if share]
        )
        return list(codec.unpack_keys(b"".join(field for part in found for field in part)))

    async def usage(self) -> IndexUsage:
        commands: list[tuple[Any, ...]] = []
        for base in self._shards:
            commands += [("HLEN", keyspace.blocks(base)), ("HGET", base, "bytes")]
        replies = await self._commands.pipeline(commands)
        return IndexUsage(sum(replies[::2]), sum(int(size or 0) for size in replies[1::2]))

    async def close(self) -> None:
        """The connection belongs to whoever opened it."""


def _packed(key: int) -> bytes:
    return key.to_bytes(8, signed=True)


def _condition(expected: bytes | None | Expected) -> tuple[bytes, bytes]:
    if expected is Expected.ANYTHING:
        return b"a", b""
    if expected is Expected.SOMETHING:
        return b"s", b""
    return (b"n", b"") if expected is None else (b"x", expected)


def _shares(counts: Sequence[int], n: int) -> list[int]:
    """How many of `n` drawn without putting back fall into each part."""
    shares = [0] * len(counts)
    ends: list[int] = []
    for count in counts:
        ends.append(count + (ends[-1] if ends else 0))
    total = ends[-1]
    drawn = sorted(random.sample(range(total), min(n, total)))
    part = 0
    for position in drawn:
        while position >= ends[part]:
            part += 1
        shares[part] += 1
    return shares
