"""Write sessions of a shard: open -> finishing -> gone. The twin of `index/lua/2_sessions.lua`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgpack

from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import SessionHeader

from .changes import (
    KEY_BYTES,
    SERVING,
    WRITING,
    Call,
    Event,
    Runs,
    Usage,
    add_pending,
    forget_runs,
    leave,
    location_id,
    locations,
    run_name,
    score,
    size_at,
    split_keys,
)

OPEN, FINISHING = 1, 2
CHUNK = 512
RESUME_MS = 2000
"""A session that needs further calls is due for the sweep so soon, should nobody make them."""
_TOUCHED = 12
_STAMP = 6

Reply = list[bytes | int]
GONE: Reply = [b"GONE"]
LATE: Reply = [b"LATE"]
AGAIN: Reply = [b"AGAIN"]


def read_header(call: Call, sid: bytes) -> SessionHeader | None:
    raw = call.tx.hget(keyspace.sessions(call.base), sid)
    return None if raw is None else SessionHeader.unpack(raw)


def _store(call: Call, sid: bytes, header: SessionHeader) -> None:
    call.tx.hset(keyspace.sessions(call.base), {sid: header.pack()})


def _drop(call: Call, sid: bytes) -> None:
    call.tx.hdel(keyspace.sessions(call.base), sid, sid + b":k", sid + b":x", sid + b":m")
    call.tx.zrem(keyspace.session_deadlines(call.base), sid)


def _note_inserted(call: Call, sid: bytes, size: int, *, is_last: bool) -> None:
    """The reservation of the group shrinks by what the next push reports."""
    name = keyspace.unpushed(call.base)
    total = int((call.tx.hget(name, sid) or b"0").rstrip(b"+")) + size
    call.tx.hset(name, {sid: b"%d%s" % (total, b"+" if is_last else b"")})


def _losers(call: Call, sid: bytes) -> set[int]:
    blob = call.tx.hget(keyspace.sessions(call.base), sid + b":x") or b""
    return {int.from_bytes(blob[at : at + 3]) for at in range(0, len(blob), 3)}


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
        if known is None or known.state != OPEN or call.now_ms > known.insert_by_ms:
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
    for index, (key, entry, record) in enumerate(zip(chunk.keys, chunk.entries, records, strict=True)):
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
        packed = b"".join(index.to_bytes(3) for index in lost)
        call.tx.hset(name, {field_name: (call.tx.hget(name, field_name) or b"") + packed})
    header = replace(header, inserted=header.inserted + len(chunk.keys))
    _store(call, sid, header)
    if header.count > 0:
        _note_inserted(call, sid, size, is_last=header.inserted >= header.count)
    leave(call, usage)
    return lost


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


@dataclass(slots=True)
class _Flipped:
    """What finishing a chunk changes."""

    usage: Usage = field(default_factory=Usage)
    sets: dict[bytes, bytes] = field(default_factory=dict)
    dels: list[bytes] = field(default_factory=list)
    served: list[bytes] = field(default_factory=list)
    extended: set[bytes] = field(default_factory=set)
    """Runs of blocks that have one more location now: a cached answer lacks it."""
    dropped: list[bytes] = field(default_factory=list)
    removed: Runs = field(default_factory=dict)


def _finish_chunk(call: Call, sid: bytes, header: SessionHeader, start: int) -> int:
    """Flips or drops up to CHUNK keys of a FINISHING session; the index to go on with, or -1 at the end."""
    keys, mask = call.tx.hmget(keyspace.sessions(call.base), (sid + b":k", sid + b":m"))
    if keys is None or mask is None:
        raise ValueError(f"session {sid!r} is not whole")
    lost = _losers(call, sid)
    stop = min(start + CHUNK, header.count)
    position = start - sum(index < start for index in lost)
    chunk = split_keys(keys, start, stop)
    done = _Flipped()
    for index, (key, record) in enumerate(
        zip(chunk, call.tx.hmget(keyspace.blocks(call.base), chunk), strict=True), start
    ):
        if index in lost:
            continue
        is_written = mask[position : position + 1] == b"1"
        position += 1
        if record is not None:
            _end_location(call, done, header.location_id.encode(), key, record, is_written)
    blocks = keyspace.blocks(call.base)
    call.tx.hset(blocks, done.sets)
    call.tx.hdel(blocks, *done.dels)
    forget_runs(call, done.removed)
    events = (
        Event(b"serve", done.served, sorted(done.extended)),
        Event(b"drop", done.dropped, sorted(done.removed)),
    )
    leave(call, done.usage, events)
    if stop < header.count:
        return stop
    if header.inserted < header.count:
        _note_inserted(call, sid, 0, is_last=True)
    _drop(call, sid)
    return -1


def _end_location(
    call: Call, done: _Flipped, own: bytes, key: bytes, record: bytes, is_written: bool
) -> None:
    """The session's own location of a block, if it is still WRITING: serving, or out of the record."""
    for one in locations(record):
        if one.status != WRITING or location_id(record, one.at) != own:
            continue
        at, size = one.at, size_at(record, one.at)
        if is_written:
            stamp = call.now_ms.to_bytes(_STAMP)
            flipped = bytes((SERVING,)) + record[at + 1 : at + 21] + stamp + record[at + 27 :]
            done.sets[key] = record[:at] + flipped
            done.usage.moved(one.ref, "w", "s", size)
            done.served.append(key)
            if at or one.stop < len(record):
                done.extended.update(run_name(record, other.at) for other in locations(record))
            return
        rest = record[:at] + record[one.stop :]
        if rest:
            done.sets[key] = rest
        else:
            done.dels.append(key)
        done.removed.setdefault(run_name(record, at), set()).add(key)
        done.usage.moved(one.ref, "w", "p", size)
        add_pending(call, call.now_ms, b"f", key, record[at : one.stop])
        done.dropped.append(key)
        return


def _finish_begin(call: Call, sid: bytes, header: SessionHeader) -> int:
    following = _finish_chunk(call, sid, header, 0)
    if following >= 0:
        due = min(header.deadline_ms, call.now_ms + RESUME_MS)
        call.tx.zadd(keyspace.session_deadlines(call.base), sid, due)
    return following


def _begin(call: Call, sid: bytes, header: SessionHeader, mask: bytes) -> int:
    header = replace(header, state=FINISHING)
    _store(call, sid, header)
    call.tx.hset(keyspace.sessions(call.base), {sid + b":m": mask})
    return _finish_begin(call, sid, header)


def finish(call: Call, args: Sequence[bytes]) -> Reply:
    """The client's Finish, or what a ticket has decided."""
    call.enter(args[0])
    sid, form, mask = args[1], args[2], args[3]
    header, is_decided = read_header(call, sid), args[4:5] == [b"1"]
    if header is None:
        return GONE
    if not is_decided and (header.state != OPEN or call.now_ms > header.deadline_ms):
        return GONE
    expected = header.count - len(_losers(call, sid))
    if form == b"offset":
        offset = int(mask)
        if not 0 <= offset <= expected:
            return [b"MASK", expected]
        mask = b"1" * offset + b"0" * (expected - offset)
    elif len(mask) != expected:
        return [b"MASK", expected]
    return [b"OK", _begin(call, sid, header, mask), expected]


def finish_next(call: Call, args: Sequence[bytes]) -> Reply:
    call.enter(args[0])
    header = read_header(call, args[1])
    if header is None or header.state != FINISHING:
        return GONE
    return [b"OK", _finish_chunk(call, args[1], header, int(args[2]))]


def _open_and_due(call: Call, sid: bytes, force: bytes) -> SessionHeader | None:
    header = read_header(call, sid)
    if header is None or header.state != OPEN:
        return None
    return None if force != b"1" and call.now_ms <= header.deadline_ms else header


def park(call: Call, args: Sequence[bytes]) -> Reply:
    """Blocks of an OPEN session that will never be inserted: their slots are freed."""
    call.enter(args[0])
    sid = args[1]
    header = _open_and_due(call, sid, args[2])
    if header is None:
        return GONE
    if header.inserted != int(args[3]):
        return AGAIN
    usage, size = Usage(), 0
    pairs = args[4:]
    for key, entry in zip(pairs[::2], pairs[1::2], strict=True):
        size += size_at(entry)
        add_pending(call, call.now_ms, b"f", key, entry)
    count = len(pairs) // 2
    usage.moved(header.storage_ref, "", "p", size, count)
    header = replace(header, inserted=header.inserted + count)
    _store(call, sid, header)
    _note_inserted(call, sid, size, is_last=header.inserted >= header.count)
    leave(call, usage)
    return [b"OK"]


def fail(call: Call, args: Sequence[bytes]) -> Reply:
    """Ends an OPEN session with all blocks failed."""
    call.enter(args[0])
    sid = args[1]
    header = _open_and_due(call, sid, args[2])
    if header is None:
        return GONE
    if header.inserted < header.count and args[3] != b"1":
        return AGAIN
    return [b"OK", _begin(call, sid, header, b"0" * (header.count - len(_losers(call, sid))))]


# Tickets: sessions over several shards (2_tickets.lua)

_TICKET_DEADLINE = slice(1, 7)
_TICKET_COUNT = slice(7, 10)


def _pack_ticket(state: int, deadline_ms: int, count: int) -> bytes:
    return bytes((state,)) + deadline_ms.to_bytes(6) + count.to_bytes(3)


def _settle(call: Call, sid: bytes) -> None:
    tickets = keyspace.tickets(call.base)
    growth = call.tx.hget(tickets, sid + b":g")
    if growth is not None:
        call.tx.hdel(tickets, sid + b":g")
        if call.tx.hincrby(tickets, b"#", -int(growth)) == 0:
            call.tx.hdel(tickets, b"#")


def ticket_open(call: Call, args: Sequence[bytes]) -> Reply:
    call.enter(args[0])
    sid, deadline, keys = args[1], int(args[2]), args[3]
    if call.now_ms > deadline:
        return [b"LATE"]
    deadlines = keyspace.ticket_deadlines(call.base)
    if call.tx.zcard(deadlines) >= int(args[4]):
        return [b"SESSIONS"]
    ticket = _pack_ticket(OPEN, deadline, len(keys) // KEY_BYTES)
    tickets = keyspace.tickets(call.base)
    call.tx.hset(tickets, {sid: ticket, sid + b":k": keys, sid + b":g": args[5]})
    call.tx.zadd(deadlines, sid, deadline)
    return [b"OK", call.tx.hincrby(tickets, b"#", int(args[5]))]


def ticket_placed(call: Call, args: Sequence[bytes]) -> int:
    call.enter(args[0])
    _settle(call, args[1])
    return 1


def ticket_decide(call: Call, args: Sequence[bytes]) -> int:
    call.enter(args[0])
    sid, verdict, when = args[1], args[2], args[3]
    raw = call.tx.hget(keyspace.tickets(call.base), sid)
    if raw is None:
        return 0
    deadline, count = int.from_bytes(raw[_TICKET_DEADLINE]), int.from_bytes(raw[_TICKET_COUNT])
    is_late = call.now_ms > deadline
    if raw[0] != OPEN or (when == b"before" and is_late) or (when == b"after" and not is_late):
        return 0
    ticket = _pack_ticket(FINISHING, deadline, count)
    call.tx.hset(keyspace.tickets(call.base), {sid: ticket, sid + b":m": verdict})
    due = min(deadline, call.now_ms + RESUME_MS)
    call.tx.zadd(keyspace.ticket_deadlines(call.base), sid, due)
    return 1


def ticket_drop(call: Call, args: Sequence[bytes]) -> int:
    call.enter(args[0])
    sid = args[1]
    _settle(call, sid)
    call.tx.hdel(keyspace.tickets(call.base), sid, sid + b":k", sid + b":m")
    return int(call.tx.zrem(keyspace.ticket_deadlines(call.base), sid))
