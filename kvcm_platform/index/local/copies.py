"""Copies between storages: the twin of `index/lua/3_copies.lua`. Their flip is in sessions.py."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import SESSION_OPEN

from .changes import (
    KEY_BYTES,
    Call,
    Event,
    Usage,
    leave,
    note_gone,
    retire,
    run_name,
    serving_at,
    size_at,
    split_keys,
)
from .sessions import GONE, Copy, Reply, read_header


def copy(call: Call, args: Sequence[bytes]) -> Reply:
    """An OPEN session copies its blocks from these locations."""
    call.enter(args[0])
    sid, goes, delay, sources = args[1], args[2] == b"1", int(args[3]), args[4]
    header = read_header(call, sid)
    if header is None or header.state != SESSION_OPEN or call.now_ms > header.deadline_ms:
        return GONE
    if len(sources) != header.count * KEY_BYTES:
        raise ValueError("one source a key")
    call.tx.hset(keyspace.sessions(call.base), {sid + b":s": Copy(goes, delay, sources).pack()})
    return [b"OK"]


def shed(call: Call, args: Sequence[bytes]) -> list[int | bytes]:
    """Marks locations DELETING whose blocks are served from another place; their number and bytes."""
    call.enter(args[0])
    due_ms, chunk, pairs = call.now_ms + int(args[1]), split_keys(args[2]), split_keys(args[3])
    usage, size = Usage(), 0
    sets: dict[bytes, bytes] = {}
    told: set[bytes] = set()
    records = call.tx.hmget(keyspace.blocks(call.base), chunk)
    for key, record, going_id, staying_id in zip(chunk, records, pairs[::2], pairs[1::2], strict=True):
        going = serving_at(record or b"", going_id)
        if record is None or going is None or serving_at(record, staying_id) is None:
            continue
        size += size_at(record, going.at)
        sets[key] = retire(call, usage, key, record, going, due_ms)
        told.add(run_name(record, going.at))
    if sets:
        call.tx.hset(keyspace.blocks(call.base), sets)
        leave(call, usage, (Event(b"drop", list(sets), sorted(told)),))
        note_gone(call, b"moved", list(sets))
    return [len(sets), b"%d" % size]
