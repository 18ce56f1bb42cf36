"""Write sessions of a shard: open -> finishing -> gone. The twin of `index/lua/2_sessions.lua`.

Inserts are in inserts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kvcm_platform.index import codec, keyspace
from kvcm_platform.index.codec import SESSION_FINISHING, SESSION_OPEN, SessionHeader

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
    note_gone,
    retire,
    run_name,
    serving_at,
    size_at,
    split_keys,
)

CHUNK = 512
RESUME_MS = 2000
"""A session that needs further calls is due for the sweep so soon, should nobody make them."""
_STAMP = 6
EXPIRED = b"x"
"""In the mask of a session that nobody finished."""

Reply = list[bytes | int]
GONE: Reply = [b"GONE"]
LATE: Reply = [b"LATE"]
AGAIN: Reply = [b"AGAIN"]


def read_header(call: Call, sid: bytes) -> SessionHeader | None:
    raw = call.tx.hget(keyspace.sessions(call.base), sid)
    return None if raw is None else SessionHeader.unpack(raw)


def store(call: Call, sid: bytes, header: SessionHeader) -> None:
    call.tx.hset(keyspace.sessions(call.base), {sid: header.pack()})


def _drop(call: Call, sid: bytes) -> None:
    call.tx.hdel(keyspace.sessions(call.base), sid, sid + b":k", sid + b":x", sid + b":m", sid + b":s")
    call.tx.zrem(keyspace.session_deadlines(call.base), sid)


def note_inserted(call: Call, sid: bytes, size: int, *, is_last: bool) -> None:
    """The reservation of the group shrinks by what the next push reports."""
    name = keyspace.unpushed(call.base)
    total = int((call.tx.hget(name, sid) or b"0").rstrip(b"+")) + size
    call.tx.hset(name, {sid: b"%d%s" % (total, b"+" if is_last else b"")})


def _losers(call: Call, sid: bytes) -> set[int]:
    return codec.unpack_indexes(call.tx.hget(keyspace.sessions(call.base), sid + b":x"))


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
    told: set[bytes] = field(default_factory=set)
    """Runs of sources that went with the flip of their copies."""
    failed: list[bytes] = field(default_factory=list)
    moved: list[bytes] = field(default_factory=list)
    reason: bytes = b"failed"
    """Why those went that were not written."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What a session copies: the location that each key's copy was read from."""

    goes: bool
    delay_ms: int
    sources: bytes

    @classmethod
    def of(cls, call: Call, sid: bytes) -> Copy | None:
        raw = call.tx.hget(keyspace.sessions(call.base), sid + b":s")
        return None if raw is None else cls(raw[0] == 1, int.from_bytes(raw[1:7]), raw[7:])

    def pack(self) -> bytes:
        return bytes((self.goes,)) + self.delay_ms.to_bytes(6) + self.sources

    def source(self, index: int) -> bytes:
        return self.sources[index * KEY_BYTES : (index + 1) * KEY_BYTES]


def _finish_chunk(call: Call, sid: bytes, header: SessionHeader, start: int) -> int:
    """Flips or drops up to CHUNK keys of a FINISHING session; the index to go on with, or -1 at the end."""
    keys, mask = call.tx.hmget(keyspace.sessions(call.base), (sid + b":k", sid + b":m"))
    if keys is None or mask is None:
        raise ValueError(f"session {sid!r} is not whole")
    lost = _losers(call, sid)
    stop = min(start + CHUNK, header.count)
    position = start - sum(index < start for index in lost)
    chunk = split_keys(keys, start, stop)
    done, copy = _Flipped(), Copy.of(call, sid)
    for index, (key, record) in enumerate(
        zip(chunk, call.tx.hmget(keyspace.blocks(call.base), chunk), strict=True), start
    ):
        if index in lost:
            continue
        verdict = mask[position : position + 1]
        is_written = verdict == b"1"
        if verdict == EXPIRED:
            done.reason = b"expired"
        position += 1
        if record is None:
            continue
        own = header.location_id.encode()
        if copy is None:
            _end_location(call, done, own, key, record, is_written)
        else:
            _end_copy(call, done, own, key, record, copy, copy.source(index) if is_written else b"")
    blocks = keyspace.blocks(call.base)
    call.tx.hset(blocks, done.sets)
    call.tx.hdel(blocks, *done.dels)
    forget_runs(call, done.removed)
    events = (
        Event(b"serve", done.served, sorted(done.extended)),
        Event(b"drop", done.dropped, sorted(done.told.union(done.removed))),
    )
    leave(call, done.usage, events)
    # Of a copy that failed nothing left: the block is where it was, or its removal has told why.
    note_gone(call, done.reason, done.failed if copy is None else ())
    note_gone(call, b"moved", done.moved)
    if stop < header.count:
        return stop
    if header.inserted < header.count:
        note_inserted(call, sid, 0, is_last=True)
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
        done.failed.append(key)
        return


def _end_copy(
    call: Call, done: _Flipped, own: bytes, key: bytes, record: bytes, copy: Copy, source_id: bytes
) -> None:
    """A copy is flipped only while the location that it was read from is SERVING, and has that one's time.

    A location never comes back from DELETING and its object is not touched before: what was read is whole.
    """
    source = serving_at(record, source_id)
    _end_location(call, done, own, key, record, source is not None)
    flipped = done.sets.get(key, b"")
    target = serving_at(flipped, own)
    if source is None or target is None:
        return
    time = record[source.at + 21 : source.at + 27]
    flipped = flipped[: target.at + 21] + time + flipped[target.at + 27 :]
    if copy.goes:
        flipped = retire(call, done.usage, key, flipped, source, call.now_ms + copy.delay_ms)
        done.dropped.append(key)
        done.moved.append(key)
        done.told.add(run_name(record, source.at))
    done.sets[key] = flipped


def _finish_begin(call: Call, sid: bytes, header: SessionHeader) -> int:
    following = _finish_chunk(call, sid, header, 0)
    if following >= 0:
        due = min(header.deadline_ms, call.now_ms + RESUME_MS)
        call.tx.zadd(keyspace.session_deadlines(call.base), sid, due)
    return following


def _begin(call: Call, sid: bytes, header: SessionHeader, mask: bytes) -> int:
    header = replace(header, state=SESSION_FINISHING)
    store(call, sid, header)
    call.tx.hset(keyspace.sessions(call.base), {sid + b":m": mask})
    return _finish_begin(call, sid, header)


def finish(call: Call, args: Sequence[bytes]) -> Reply:
    """The client's Finish, or what a ticket has decided."""
    call.enter(args[0])
    sid, form, mask = args[1], args[2], args[3]
    header, is_decided = read_header(call, sid), args[4:5] == [b"1"]
    if header is None:
        return GONE
    if not is_decided and (header.state != SESSION_OPEN or call.now_ms > header.deadline_ms):
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
    if header is None or header.state != SESSION_FINISHING:
        return GONE
    return [b"OK", _finish_chunk(call, args[1], header, int(args[2]))]


def _open_and_due(call: Call, sid: bytes, force: bytes) -> SessionHeader | None:
    header = read_header(call, sid)
    if header is None or header.state != SESSION_OPEN:
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
    store(call, sid, header)
    note_inserted(call, sid, size, is_last=header.inserted >= header.count)
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
    return [b"OK", _begin(call, sid, header, EXPIRED * (header.count - len(_losers(call, sid))))]
