"""Freed slots of slot files, orphans, repairs. The twin of `index/lua/5_storages.lua` and `6_repair.lua`."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.index import keyspace

from .changes import Call

FREE = ord("1")


def slots_free(call: Call, args: Sequence[bytes]) -> int:
    """Notes freed slots of a file; 1 when all of them are."""
    file, slots, is_second_pass = args[0], int(args[1]), args[2] == b"1"
    name = keyspace.slot_files(call.base)
    raw = call.tx.hget(name, file)
    if raw is None and is_second_pass:
        return 1
    bits = bytearray(b"0" * slots if raw is None else raw[2 : 2 + slots].ljust(slots, b"0"))
    for slot in args[3:]:
        bits[int(slot)] = FREE
    call.tx.hset(name, {file: slots.to_bytes(2) + bytes(bits)})
    return int(b"0" not in bits)


def slots_forget(call: Call, args: Sequence[bytes]) -> int:
    return call.tx.hdel(keyspace.slot_files(call.base), *args)


def orphan(call: Call, args: Sequence[bytes]) -> int:
    """(member, bytes, entry) triples onto the storage's list of orphans; known ones change nothing."""
    name = keyspace.orphans(call.base)
    for member, size, entry in zip(args[::3], args[1::3], args[2::3], strict=True):
        if call.tx.hget(name, member) is None:
            call.tx.hset(name, {member: entry})
            call.tx.hincrby(call.base, b"ob", int(size))
            call.tx.hincrby(call.base, b"on", 1)
    return 1


def orphan_drop(call: Call, args: Sequence[bytes]) -> int:
    """(member, bytes) pairs off the list of orphans; returns how many were on it."""
    dropped = 0
    for member, size in zip(args[::2], args[1::2], strict=True):
        if call.tx.hdel(keyspace.orphans(call.base), member):
            call.tx.hincrby(call.base, b"ob", -int(size))
            call.tx.hincrby(call.base, b"on", -1)
            dropped += 1
    return dropped


def repair(call: Call, args: Sequence[bytes]) -> int:
    """Replaces a shard's usage with a recount; 0 when the shard changed meanwhile."""
    call.enter(args[0])
    if (call.tx.hget(call.base, b"seq") or b"0") != args[1]:
        return 0
    stale = [name for name in call.tx.hgetall(call.base) if name[:2] in {b"b:", b"n:"}]
    call.tx.hdel(call.base, *stale)
    call.tx.hset(call.base, dict(zip(args[2::2], args[3::2], strict=True)))
    call.tx.hincrby(call.base, b"seq", 1)
    return 1
