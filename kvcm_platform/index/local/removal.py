"""Removal: SERVING or WRITING -> DELETING -> gone, and what is due. The twin of `index/lua/3_removal.lua`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import HEADER, split_pending

from .changes import (
    DELETING,
    SERVING,
    Accounts,
    Call,
    Event,
    Location,
    Runs,
    Usage,
    add_pending,
    forget_runs,
    leave,
    location_id,
    locations,
    note_gone,
    run_name,
    score,
    size_at,
    split_keys,
    state_of,
)

_TOUCH = 18
_LONGEST_HEAD = 9 + HEADER
"""Of a pending entry, before the location's own bytes."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """Which locations to mark; modes as in the Lua file. `named` has each key's ids with mode `named`."""

    mode: bytes
    due_ms: int
    begin_ms: int
    end_ms: int
    named: Sequence[bytes] = ()

    def covers(self, index: int, record: bytes, one: Location) -> bool:
        """Whether a location of the `index`-th key's record is among them."""
        if one.status == DELETING:
            return False
        if self.mode == b"named":
            return location_id(record[one.at : one.stop]) in self.named[index]
        if self.mode == b"all":
            return True
        return _is_in_span(self.mode, record, one, self.begin_ms, self.end_ms)


def _is_in_span(mode: bytes, record: bytes, one: Location, begin_ms: int, end_ms: int) -> bool:
    """Whether a trim with this mode and span takes a location."""
    if one.status == DELETING or (one.status != SERVING and mode == b"time"):
        return False
    return begin_ms <= int.from_bytes(record[one.at + 21 : one.at + 27]) <= end_ms


@dataclass(slots=True)
class _Marked:
    usage: Usage = field(default_factory=Usage)
    sets: dict[bytes, bytes] = field(default_factory=dict)
    dels: list[bytes] = field(default_factory=list)
    removed: Runs = field(default_factory=dict)
    touched: set[bytes] = field(default_factory=set)
    dropped: list[bytes] = field(default_factory=list)
    count: int = 0
    size: int = 0


def remove(call: Call, args: Sequence[bytes]) -> list[int | bytes]:
    """Marks locations DELETING; returns their number and bytes."""
    call.enter(args[0])
    wish = _Wish(args[1], call.now_ms + int(args[2]), int(args[3]), int(args[4]), args[7:])
    chunk = split_keys(args[5])
    done = _Marked()
    blocks = keyspace.blocks(call.base)
    for index, (key, record) in enumerate(zip(chunk, call.tx.hmget(blocks, chunk), strict=True)):
        if record is not None:
            _mark(call, wish, done, index, key, record)
    if done.count:
        call.tx.hset(blocks, done.sets)
        call.tx.hdel(blocks, *done.dels)
        forget_runs(call, done.removed)
        leave(call, done.usage, (Event(b"drop", done.dropped, sorted(done.touched)),))
        note_gone(call, args[6], done.dropped)
    return [done.count, b"%d" % done.size]


def _mark(call: Call, wish: _Wish, done: _Marked, index: int, key: bytes, record: bytes) -> None:
    parts: list[bytes] = []
    is_changed = False
    for one in locations(record):
        if not wish.covers(index, record, one):
            parts.append(record[one.at : one.stop])
            continue
        size = size_at(record, one.at)
        entry = bytes((DELETING,)) + record[one.at + 1 : one.stop]
        is_changed = True
        done.count += 1
        done.size += size
        done.touched.add(run_name(entry))
        if wish.mode == b"meta":
            done.usage.moved(one.ref, state_of(one.status), "", size)
            add_pending(call, call.now_ms, b"o", key, entry)
            done.removed.setdefault(run_name(entry), set()).add(key)
        else:
            done.usage.moved(one.ref, state_of(one.status), "p", size)
            add_pending(call, wish.due_ms, b"d" if one.status == SERVING else b"w", key, entry)
            parts.append(entry)
    if not is_changed:
        return
    done.dropped.append(key)
    if parts:
        done.sets[key] = b"".join(parts)
    else:
        done.dels.append(key)


def trim_count(call: Call, args: Sequence[bytes]) -> list[bytes]:
    """What a trim would take: the next cursor, and packed (key, storage ref, bytes) of each location."""
    mode, begin_ms, end_ms = args[0], int(args[1]), int(args[2])
    items, following = call.tx.page(keyspace.blocks(call.base), args[3], int(args[4]))
    rows = [
        key + record[one.at + 2 : one.at + 5] + record[one.at + 15 : one.at + 21]
        for key, record in items
        for one in locations(record)
        if _is_in_span(mode, record, one, begin_ms, end_ms)
    ]
    return [following, b"".join(rows)]


def due(call: Call, args: Sequence[bytes]) -> list[int | bytes]:
    """Pending deletions that are due: [now, when the last one is, member, value, member, value, …]."""
    limit, skip, ahead_ms = (int(args[at]) if len(args) > at else 0 for at in range(3))
    found = call.tx.lowest(keyspace.pending_due(call.base), call.now_ms + ahead_ms, skip + limit)[skip:]
    members = [member for member, _ in found]
    reply: list[int | bytes] = [call.now_ms, int(found[-1][1]) if found else call.now_ms]
    for member, value in zip(members, call.tx.hmget(keyspace.pending(call.base), members), strict=True):
        reply += [member, value or b""]
    return reply


def deleted(call: Call, args: Sequence[bytes]) -> int:
    """These deletions are over; what was being written is freed once more later."""
    call.enter(args[0])
    again, outcome = call.now_ms + int(args[1]), b"o" if args[2] == b"1" else b"f"
    pending, dues = keyspace.pending(call.base), keyspace.pending_due(call.base)
    usage, accounts, removed, count = Usage(), Accounts(), Runs(), 0
    for handle in args[3:]:
        flag, member = handle[:1], handle[1:]
        value = call.tx.hget(pending, member)
        if value is None or value[:1] != flag:
            continue
        count += 1
        _, run_id, entry = split_pending(value)
        size = size_at(entry)
        if run_id:
            accounts.add(run_id, outcome, 1, size)
            if flag == b"E":
                accounts.add(run_id, b"x", -1, -size)
        if flag in b"deEfw":
            usage.moved(int.from_bytes(entry[2:5]), "p", "", size)
        if flag in b"fw":
            call.tx.hset(pending, {member: b"g" + entry})
            call.tx.zadd(dues, member, again)
        else:
            call.tx.hdel(pending, member)
            call.tx.zrem(dues, member)
        if flag in b"deEw":
            _take_out(call, member[:8], member[8:], removed)
    if count:
        forget_runs(call, removed)
        leave(call, usage)
        accounts.apply(call)
    return count


def _take_out(call: Call, own: bytes, key: bytes, removed: Runs) -> None:
    """The DELETING location leaves its block's record."""
    blocks = keyspace.blocks(call.base)
    record = call.tx.hget(blocks, key)
    for one in locations(record or b""):
        if record is not None and one.status == DELETING and location_id(record, one.at) == own:
            rest = record[: one.at] + record[one.stop :]
            if rest:
                call.tx.hset(blocks, {key: rest})
            else:
                call.tx.hdel(blocks, key)
            removed.setdefault(run_name(record, one.at), set()).add(key)
            return


def postpone(call: Call, args: Sequence[bytes]) -> int:
    """These could not be deleted yet."""
    call.enter(args[0])
    due_ms, pending, accounts = call.now_ms + int(args[1]), keyspace.pending(call.base), Accounts()
    for handle in args[2:]:
        member = handle[1:]
        call.tx.zadd(keyspace.pending_due(call.base), member, due_ms, only_known=True)
        value = call.tx.hget(pending, member) if handle[:1] == b"e" else None
        if value is not None and value[:1] == b"e" and len(value) > _LONGEST_HEAD:
            _, run_id, entry = split_pending(value)
            call.tx.hset(pending, {member: b"E" + value[1:]})
            accounts.add(run_id, b"x", 1, size_at(entry))
    accounts.apply(call)
    return len(args) - 2


def touch(call: Call, args: Sequence[bytes]) -> int:
    """A read used these runs: packed (10-byte run, 2-byte depth, 6-byte tick in ms) each."""
    call.enter(args[0])
    blob, recency = args[1], keyspace.recency(call.base)
    for at in range(0, len(blob), _TOUCH):
        run, depth, tick = (
            blob[at : at + 10],
            int.from_bytes(blob[at + 10 : at + 12]),
            int.from_bytes(blob[at + 12 : at + _TOUCH]),
        )
        call.tx.zadd(recency, run, score(min(call.now_ms, tick), depth), only_known=True, only_up=True)
    return len(blob) // _TOUCH
