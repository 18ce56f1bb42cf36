"""Opens write sessions and inserts their blocks: `kvcm_write` of `index/lua/2_sessions.lua`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgpack

from kvcm_platform.index import codec, keyspace
from kvcm_platform.index.codec import SESSION_OPEN, SessionHeader

from .changes import (
    KEY_BYTES,
    SERVING,
    Call,
    Usage,
    add_pending,
    leave,
    location_id,
    locations,
    run_name,
    score,
    size_at,
    split_keys,
)
from .sessions import LATE, Reply, note_inserted, read_header, store

_TOUCHED = 12


def _was_overtaken(record: bytes, served: frozenset[int], seen: bytes) -> bool:
    """Whether a block has a location that the planner did not see and that exists."""
    for one in locations(record):
        if one.status != SERVING or one.ref & 0xFFFF in served:
            names = (seen[at : at + KEY_BYTES] for at in range(0, len(seen), KEY_BYTES))
            if location_id(record, one.at) not in names:
                return True
    return False


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The arguments of `kvcm_write` behind the session's, decoded; they are explained in the Lua file."""

    served: frozenset[int]
    offset: int
    depths: bytes
    keys: Sequence[bytes]
    tick_ms: int
    touched: bytes
    seen: Mapping[int, bytes]
    entries: Sequence[bytes]

    @classmethod
    def of(cls, args: Sequence[bytes]) -> _Chunk:
        numbers = (args[6][at : at + 2] for at in range(0, len(args[6]), 2))
        seen = msgpack.unpackb(args[12], raw=True, strict_map_key=False) if args[12] else {}
        return cls(
            served=frozenset(int.from_bytes(number) for number in numbers),
            offset=int(args[7]),
            depths=args[8],
            keys=split_keys(args[9]),
            tick_ms=int(args[10]),
            touched=args[11],
            seen=seen,
            entries=args[13:],
        )


def write(call: Call, args: Sequence[bytes]) -> Reply:
    """Inserts one chunk of WRITING locations, the first one together with the session."""
    call.enter(args[0])
    sid, first_header, all_keys = args[1], args[2], args[3]
    chunk = _Chunk.of(args)
    if first_header:
        header = SessionHeader.unpack(first_header)
        if call.now_ms > header.insert_by_ms:
            return LATE
        if call.tx.zcard(keyspace.session_deadlines(call.base)) >= int(args[4]):
            return [b"SESSIONS"]
    else:
        known = read_header(call, sid)
        if known is None or known.state != SESSION_OPEN or call.now_ms > known.insert_by_ms:
            return LATE
        if known.inserted != chunk.offset:
            return LATE
        header = known
    # The first chunk answers for the whole Start, so that none is refused half-way.
    growth = len(all_keys) // KEY_BYTES if first_header else len(chunk.keys)
    if growth > 0 and call.tx.hlen(keyspace.blocks(call.base)) + growth > int(args[5]):
        return [b"KEYS"]
    if first_header:
        call.tx.hset(keyspace.sessions(call.base), {sid + b":k": all_keys})
        call.tx.zadd(keyspace.session_deadlines(call.base), sid, header.deadline_ms)
    return [b"OK", *_insert(call, sid, header, chunk)]


def _insert(call: Call, sid: bytes, header: SessionHeader, chunk: _Chunk) -> list[int]:
    """Returns the indexes of keys that another wrote meanwhile: their slots are freed at once."""
    usage, lost, size = Usage(), list[int](), 0
    sets: dict[bytes, bytes] = {}
    placed: list[int] = []
    tick = min(call.now_ms, chunk.tick_ms)
    _touch_existing(call, chunk.touched, tick)
    records = call.tx.hmget(keyspace.blocks(call.base), chunk.keys)
    entries = _begun_by(call.now_ms, chunk.entries)
    for index, (key, entry, record) in enumerate(zip(chunk.keys, entries, records, strict=True)):
        own = size_at(entry)
        size += own
        if record is not None and _was_overtaken(record, chunk.served, chunk.seen.get(index + 1, b"")):
            lost.append(chunk.offset + index)
            usage.moved(header.storage_ref, "", "p", own)
            add_pending(call, call.now_ms, b"f", key, entry)
        else:
            sets[key] = entry if record is None else record + entry
            placed.append(index)
            usage.moved(header.storage_ref, "", "w", own)
    call.tx.hset(keyspace.blocks(call.base), sets)
    _add_runs(call, chunk, placed, tick)
    if lost:
        name, field_name = keyspace.sessions(call.base), sid + b":x"
        known = call.tx.hget(name, field_name) or b""
        call.tx.hset(name, {field_name: known + codec.pack_indexes(lost)})
    header = replace(header, inserted=header.inserted + len(chunk.keys))
    store(call, sid, header)
    if header.count > 0:
        note_inserted(call, sid, size, is_last=header.inserted >= header.count)
    leave(call, usage)
    return lost


def _begun_by(now_ms: int, entries: Sequence[bytes]) -> Sequence[bytes]:
    """A caller's clock may be ahead of this one: a trim of what was begun until now must find its blocks."""
    if not entries or int.from_bytes(entries[0][21:27]) <= now_ms:
        return entries
    stamp = now_ms.to_bytes(6)
    return [entry[:21] + stamp + entry[27:] for entry in entries]


def _touch_existing(call: Call, touched: bytes, tick: int) -> None:
    for at in range(0, len(touched), _TOUCHED):
        run, depth = touched[at : at + 10], int.from_bytes(touched[at + 10 : at + _TOUCHED])
        call.tx.zadd(keyspace.recency(call.base), run, score(tick, depth), only_known=True, only_up=True)


def _add_runs(call: Call, chunk: _Chunk, placed: Sequence[int], tick: int) -> None:
    members: dict[bytes, list[bytes]] = {}
    depths: dict[bytes, int] = {}
    for index in placed:
        run = run_name(chunk.entries[index])
        members.setdefault(run, []).append(chunk.keys[index])
        depths.setdefault(run, int.from_bytes(chunk.depths[index * 2 : index * 2 + 2]))
    name = keyspace.runs(call.base)
    before = call.tx.hmget(name, list(members))
    for (run, keys), known in zip(members.items(), before, strict=True):
        call.tx.hset(name, {run: (known or b"") + b"".join(keys)})
        call.tx.zadd(keyspace.recency(call.base), run, score(tick, depths[run]))
