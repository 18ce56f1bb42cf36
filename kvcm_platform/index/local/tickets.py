"""Tickets of write sessions over several shards. The twin of `index/lua/2_tickets.lua`."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import SESSION_FINISHING, SESSION_OPEN

from .changes import KEY_BYTES, Call
from .sessions import RESUME_MS, Reply

_DEADLINE = slice(1, 7)
_COUNT = slice(7, 10)


def _pack(state: int, deadline_ms: int, count: int) -> bytes:
    return bytes((state,)) + deadline_ms.to_bytes(6) + count.to_bytes(3)


def _settle(call: Call, sid: bytes) -> None:
    """The keys of a ticket count as announced no more."""
    tickets = keyspace.tickets(call.base)
    growth = call.tx.hget(tickets, sid + b":g")
    if growth is not None:
        call.tx.hdel(tickets, sid + b":g")
        if call.tx.hincrby(tickets, b"#", -int(growth)) == 0:
            call.tx.hdel(tickets, b"#")


def open_ticket(call: Call, args: Sequence[bytes]) -> Reply:
    call.enter(args[0])
    sid, deadline, keys = args[1], int(args[2]), args[3]
    if call.now_ms > deadline:
        return [b"LATE"]
    deadlines = keyspace.ticket_deadlines(call.base)
    if call.tx.zcard(deadlines) >= int(args[4]):
        return [b"SESSIONS"]
    ticket = _pack(SESSION_OPEN, deadline, len(keys) // KEY_BYTES)
    tickets = keyspace.tickets(call.base)
    call.tx.hset(tickets, {sid: ticket, sid + b":k": keys, sid + b":g": args[5]})
    call.tx.zadd(deadlines, sid, deadline)
    return [b"OK", call.tx.hincrby(tickets, b"#", int(args[5]))]


def placed(call: Call, args: Sequence[bytes]) -> int:
    call.enter(args[0])
    _settle(call, args[1])
    return 1


def decide(call: Call, args: Sequence[bytes]) -> int:
    call.enter(args[0])
    sid, verdict, when = args[1], args[2], args[3]
    raw = call.tx.hget(keyspace.tickets(call.base), sid)
    if raw is None:
        return 0
    deadline, count = int.from_bytes(raw[_DEADLINE]), int.from_bytes(raw[_COUNT])
    is_late = call.now_ms > deadline
    if raw[0] != SESSION_OPEN or (when == b"before" and is_late) or (when == b"after" and not is_late):
        return 0
    ticket = _pack(SESSION_FINISHING, deadline, count)
    call.tx.hset(keyspace.tickets(call.base), {sid: ticket, sid + b":m": verdict})
    due = min(deadline, call.now_ms + RESUME_MS)
    call.tx.zadd(keyspace.ticket_deadlines(call.base), sid, due)
    return 1


def drop(call: Call, args: Sequence[bytes]) -> int:
    call.enter(args[0])
    sid = args[1]
    _settle(call, sid)
    call.tx.hdel(keyspace.tickets(call.base), sid, sid + b":k", sid + b":m")
    return int(call.tx.zrem(keyspace.ticket_deadlines(call.base), sid))
