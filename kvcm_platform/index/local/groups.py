"""A group's quota: limits, usage vectors of shards, reservations. The twin of `index/lua/4_groups.lua`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgpack

from kvcm_platform.core.registry import MAX_SHARDS
from kvcm_platform.index import keyspace

from .changes import Call

_WHERE = re.compile(r"(\d+):([a-z])")
_TYPE_SHIFT = 16


@dataclass(frozen=True, slots=True)
class Vector:
    """One shard's usage as last pushed: amounts by 'ref:state'."""

    generation: int
    sequence: int
    sizes: Mapping[str, int]
    blocks: Mapping[str, int]

    @classmethod
    def unpack(cls, raw: bytes) -> Vector:
        generation, sequence, sizes, blocks = msgpack.unpackb(raw)
        return cls(generation, sequence, dict(sizes), dict(blocks))

    @property
    def live_blocks(self) -> int:
        return sum(amount for where, amount in self.blocks.items() if not where.endswith("p"))

    def pack(self) -> bytes:
        return bytes(msgpack.packb([self.generation, self.sequence, dict(self.sizes), dict(self.blocks)]))


NOTHING = Vector(-1, -1, {}, {})


@dataclass(frozen=True, slots=True)
class Reservation:
    """`seen`: bytes of its session that pushes reported so far."""

    size: int
    kind: str
    insert_by_ms: int
    seen: int = 0

    @classmethod
    def unpack(cls, raw: bytes) -> Reservation:
        return cls(*msgpack.unpackb(raw))

    def pack(self) -> bytes:
        return bytes(msgpack.packb([self.size, self.kind, self.insert_by_ms, self.seen]))


def _add(call: Call, name: str, amount: int) -> None:
    if amount:
        call.tx.hincrby(call.base, name.encode(), amount)


def _total(call: Call, name: str) -> int:
    return int(call.tx.hget(call.base, name.encode()) or b"0")


def limits(call: Call, args: Sequence[bytes]) -> int:
    """What the publication of a group sets; an older version changes nothing."""
    name = keyspace.group_limits(call.base)
    had = int(call.tx.hget(name, b"version") or b"-1")
    if had > int(args[0]) or (had == int(args[0]) and call.tx.hget(name, b"mark") is not None):
        return 0
    call.tx.hdel(name, *call.tx.hgetall(name))
    call.tx.hset(name, {b"version": args[0], b"total": args[1]})
    call.tx.hset(name, dict(zip(args[2::2], args[3::2], strict=True)))
    return 1


def reserve(call: Call, args: Sequence[bytes]) -> list[bytes | int]:
    """All or nothing, on the first candidate whose type has room."""
    sid, insert_by, size, count = args[0].decode(), int(args[1]), int(args[2]), int(args[3])
    name = keyspace.group_limits(call.base)
    capacity = call.tx.hget(name, b"total")
    if capacity is None:
        return [b"LIMITS"]
    used = _total(call, "u") + _total(call, "r")
    if used + size > int(capacity):
        return [b"GROUP", b"%d" % used, capacity]
    for index, raw_kind in enumerate(args[4 : 4 + count]):
        kind, own = raw_kind.decode(), call.tx.hget(name, raw_kind)
        held = _total(call, f"u:{kind}") + _total(call, f"r:{kind}")
        if own is None or held + size <= int(own):
            shards = args[4 + count :]
            for shard, part in zip(shards[::2], shards[1::2], strict=True):
                _open(call, f"{sid}|{shard.decode()}", Reservation(int(part), kind, insert_by))
            is_reached = _is_over(call, b"mark") or _is_over(call, f"mark:{kind}".encode())
            return [b"OK", index, 1] if is_reached else [b"OK", index]
    return [b"TYPE"]


def _is_over(call: Call, name: bytes) -> bool:
    """Whether the live bytes of the group (`mark`) or of a type (`mark:<type>`) have come to a mark."""
    mark = call.tx.hget(keyspace.group_limits(call.base), name)
    if mark is None:
        return False
    kind = name.decode().removeprefix("mark")
    return _total(call, f"u{kind}") + _total(call, f"r{kind}") - _total(call, f"p{kind}") >= int(mark)


def _has_many_keys(call: Call, shard: bytes) -> bool:
    """Whether the instance of a shard has come to its mark, as far as its shards have pushed."""
    mark = call.tx.hget(keyspace.group_limits(call.base), b"mark:keys")
    if mark is None:
        return False
    instance = shard.partition(b":")[0]
    names = [b"%s:%d" % (instance, number) for number in range(MAX_SHARDS)]
    vectors = call.tx.hmget(keyspace.group_vectors(call.base), names)
    return sum(Vector.unpack(raw).live_blocks for raw in vectors if raw is not None) >= int(mark)


def _open(call: Call, field: str, reservation: Reservation) -> None:
    call.tx.hset(keyspace.group_reservations(call.base), {field.encode(): reservation.pack()})
    deadlines = keyspace.group_reservation_deadlines(call.base)
    call.tx.zadd(deadlines, field.encode(), reservation.insert_by_ms)
    _add(call, "r", reservation.size)
    _add(call, f"r:{reservation.kind}", reservation.size)


def _shrink(call: Call, field: bytes, inserted: int, *, is_done: bool) -> None:
    name = keyspace.group_reservations(call.base)
    raw = call.tx.hget(name, field)
    if raw is None:
        return
    known = Reservation.unpack(raw)
    step = known.size if is_done else min(known.size, inserted - known.seen)
    if step > 0:
        _add(call, "r", -step)
        _add(call, f"r:{known.kind}", -step)
    if is_done or known.size - step <= 0:
        call.tx.hdel(name, field)
        call.tx.zrem(keyspace.group_reservation_deadlines(call.base), field)
    else:
        rest = Reservation(known.size - step, known.kind, known.insert_by_ms, inserted)
        call.tx.hset(name, {field: rest.pack()})


def totals_of(vectors: Iterable[Vector]) -> dict[str, int]:
    """The members u, u:<type>, p, p:<type> and n of the group's hash."""
    found: dict[str, int] = defaultdict(int)
    for vector in vectors:
        for where, amount in vector.sizes.items():
            match = _WHERE.fullmatch(where)
            if match is None:
                raise ValueError(f"{where!r} is not a place of usage")
            kind = int(match[1]) >> _TYPE_SHIFT
            for name in ("u", "p") if match[2] == "p" else ("u",):
                found[name] += amount
                found[f"{name}:{kind}"] += amount
        found["n"] += vector.live_blocks
    return found


def push(call: Call, args: Sequence[bytes]) -> int:
    """The usage of one shard, and what its sessions inserted since the last push."""
    shard, generation, sequence = args[0], int(args[1]), int(args[2])
    name = keyspace.group_vectors(call.base)
    raw = call.tx.hget(name, shard)
    known = NOTHING if raw is None else Vector.unpack(raw)
    if (generation, sequence) < (known.generation, known.sequence):
        return 0
    sizes, blocks = msgpack.unpackb(args[3])
    vector = Vector(generation, sequence, dict(sizes), dict(blocks))
    before, after = totals_of((known,)), totals_of((vector,))
    for total in {*before, *after}:
        _add(call, total, after.get(total, 0) - before.get(total, 0))
    if vector.sizes or vector.blocks:
        call.tx.hset(name, {shard: vector.pack()})
    else:
        call.tx.hdel(name, shard)
    for sid, inserted, is_done in zip(args[4::3], args[5::3], args[6::3], strict=True):
        _shrink(call, sid + b"|" + shard, int(inserted), is_done=is_done == b"1")
    names = [name for name in call.tx.hgetall(keyspace.group_limits(call.base)) if name.startswith(b"mark")]
    is_over = any(_is_over(call, name) for name in names if name != b"mark:keys")
    return 2 if is_over or _has_many_keys(call, shard) else 1


def release(call: Call, args: Sequence[bytes]) -> int:
    for field in args:
        _shrink(call, field, 0, is_done=True)
    return len(args)


def usage(call: Call, args: Sequence[bytes]) -> list[list[bytes]]:
    """One shard's usage with the sessions inserted since the last push."""
    return [
        [part for item in call.tx.hgetall(name).items() for part in item]
        for name in (call.base, keyspace.unpushed(call.base))
    ]


def pushed(call: Call, args: Sequence[bytes]) -> int:
    """Forgets reported sessions that have nothing more to report and did not change since."""
    name = keyspace.unpushed(call.base)
    for sid, value in zip(args[::2], args[1::2], strict=True):
        if value.endswith(b"+") and call.tx.hget(name, sid) == value:
            call.tx.hdel(name, sid)
    return 1


def retotal(call: Call, args: Sequence[bytes]) -> int:
    """A group's totals from its vectors and reservations; 1 when they were different (6_repair.lua)."""
    vectors = call.tx.hgetall(keyspace.group_vectors(call.base)).values()
    fresh = totals_of(map(Vector.unpack, vectors))
    for raw in call.tx.hgetall(keyspace.group_reservations(call.base)).values():
        reservation = Reservation.unpack(raw)
        fresh["r"] += reservation.size
        fresh[f"r:{reservation.kind}"] += reservation.size
    known = call.tx.hgetall(call.base)
    is_changed = any(int(value) != fresh.get(name.decode(), 0) for name, value in known.items())
    is_changed |= any(amount and name.encode() not in known for name, amount in fresh.items())
    call.tx.hdel(call.base, *known)
    call.tx.hset(call.base, {name.encode(): b"%d" % amount for name, amount in fresh.items()})
    return int(is_changed)
