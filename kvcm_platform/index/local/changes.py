"""What the functions of a shard share: the twin of `index/lua/1_common.lua`.

The functions of this package do in this process what those of the same names in `index/lua` do
in Redis: the same arguments, the same replies, the same keys. A change of one is a change of the
other; the tests of the data plane run over both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvcm_platform.core.types import LocationStatus
from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import HEADER

from .keys import Transaction

WRITING, SERVING, DELETING = (
    int(LocationStatus.WRITING),
    int(LocationStatus.SERVING),
    int(LocationStatus.DELETING),
)
KEY_BYTES = 8
GONE_LENGTH = 16384
"""Entries kept in the stream of why blocks left."""
_STATE = {WRITING: "w", SERVING: "s"}


class OldGeneration(Exception):
    """The caller's generation is older than `known`."""

    def __init__(self, known: int) -> None:
        super().__init__(known)
        self.known = known


@dataclass(slots=True)
class Call:
    """One function at work: its transaction, its shard's base key, the clock in ms."""

    tx: Transaction
    base: str
    now_ms: int

    def enter(self, caller: bytes) -> None:
        """Refuses a caller of an older generation; adopts a newer one.

        A fencing number behind it says nothing here: this process is the only one.
        """
        generation = caller.partition(b":")[0]
        known = self.tx.hget(self.base, b"gen")
        if known == generation:
            return
        if known is not None and int(known) > int(generation):
            raise OldGeneration(int(known))
        self.tx.hset(self.base, {b"gen": generation})


@dataclass(frozen=True, slots=True)
class Location:
    """Where one location lies in a record, and what its header begins with."""

    at: int
    stop: int
    status: int
    ref: int


def locations(record: bytes) -> Iterator[Location]:
    at = 0
    while at < len(record):
        stop = at + HEADER + int.from_bytes(record[at + 33 : at + 36])
        yield Location(at, stop, record[at], int.from_bytes(record[at + 2 : at + 5]))
        at = stop


def serving_at(record: bytes, wanted_id: bytes) -> Location | None:
    """The SERVING location with this id."""
    for one in locations(record):
        if one.status == SERVING and location_id(record, one.at) == wanted_id:
            return one
    return None


def location_id(record: bytes, at: int = 0) -> bytes:
    return record[at + 5 : at + 13]


def run_name(record: bytes, at: int = 0) -> bytes:
    return record[at + 5 : at + 15]


def size_at(record: bytes, at: int = 0) -> int:
    return int.from_bytes(record[at + 15 : at + 21])


def split_keys(blob: bytes, begin: int = 0, end: int | None = None) -> list[bytes]:
    """Packed 8-byte keys from index `begin` to before `end`."""
    stop = len(blob) if end is None else end * KEY_BYTES
    return [blob[at : at + KEY_BYTES] for at in range(begin * KEY_BYTES, stop, KEY_BYTES)]


def state_of(status: int) -> str:
    """The letter of a WRITING or SERVING location in usage fields."""
    return _STATE[status]


class Usage:
    """Changes of bytes and blocks by storage ref and state (w writing, s serving, p pending deletion)."""

    def __init__(self) -> None:
        self._delta: dict[str, int] = defaultdict(int)

    def moved(self, ref: int, before: str, after: str, size: int, count: int = 1) -> None:
        """From one state to another; an empty one is none."""
        if before:
            self._delta[f"b:{ref}:{before}"] -= size
            self._delta[f"n:{ref}:{before}"] -= count
        if after:
            self._delta[f"b:{ref}:{after}"] += size
            self._delta[f"n:{ref}:{after}"] += count

    def apply(self, call: Call) -> None:
        for name, amount in self._delta.items():
            if amount and call.tx.hincrby(call.base, name.encode(), amount) == 0:
                call.tx.hdel(call.base, name.encode())


Runs = dict[bytes, set[bytes]]
"""Run name -> the keys that leave it."""


@dataclass(frozen=True, slots=True)
class Event:
    """What search caches are told: keys that changed, and the runs that cached blocks are wrong of."""

    kind: bytes
    keys: Sequence[bytes]
    runs: Sequence[bytes]


def leave(call: Call, usage: Usage, events: Sequence[Event] = ()) -> None:
    """Ends a change: usage, sequence, epoch and one stream entry a kind of event."""
    usage.apply(call)
    call.tx.hincrby(call.base, b"seq", 1)
    for event in events:
        if event.keys:
            epoch = call.tx.hincrby(call.base, b"epoch", 1)
            fields = {b"e": b"%d" % epoch, b"t": event.kind}
            fields |= {b"k": b"".join(event.keys), b"r": b"".join(event.runs)}
            call.tx.xadd(keyspace.events(call.base), fields)


def note_gone(call: Call, reason: bytes, keys: Sequence[bytes]) -> None:
    """Notes why blocks left, for those who ask later; with an empty reason nobody will."""
    if reason and keys:
        fields = {b"w": reason, b"k": b"".join(keys)}
        call.tx.xadd(keyspace.gone(call.base), fields, at_ms=call.now_ms, most=GONE_LENGTH)


def forget_runs(call: Call, removed: Mapping[bytes, set[bytes]]) -> None:
    """Takes keys out of their runs; a run without keys leaves the recency order."""
    runs = keyspace.runs(call.base)
    for run, gone in removed.items():
        blob = call.tx.hget(runs, run)
        if blob is None:
            continue
        kept = b"".join(key for key in split_keys(blob) if key not in gone)
        if kept:
            call.tx.hset(runs, {run: kept})
        else:
            call.tx.hdel(runs, run)
            for order in (keyspace.recency, keyspace.heat, keyspace.uses):
                call.tx.zrem(order(call.base), run)


def score(tick_ms: int, depth: int) -> int:
    """Place of a run in the recency order: by time, within one tick the deepest first."""
    return tick_ms * 4096 + 4095 - min(depth, 4095)


def add_pending(call: Call, due_ms: int, flag: bytes, key: bytes, entry: bytes) -> None:
    """Puts a location on the list of pending deletions; the flags are explained in 1_common.lua."""
    member = location_id(entry) + key
    call.tx.zadd(keyspace.pending_due(call.base), member, due_ms)
    call.tx.hset(keyspace.pending(call.base), {member: flag + entry})


class Accounts:
    """What reclaim runs did and what became of it; fields as in 1_common.lua."""

    def __init__(self) -> None:
        self._delta: dict[bytes, int] = defaultdict(int)

    def add(self, run_id: bytes, what: bytes, count: int, size: int) -> None:
        name = b"%b:%b" % (run_id.hex().encode(), what)
        self._delta[name] += count
        self._delta[name + b"b"] += size

    def apply(self, call: Call) -> None:
        name = keyspace.evictions(call.base)
        for field, amount in self._delta.items():
            if amount and call.tx.hincrby(name, field, amount) == 0:
                call.tx.hdel(name, field)


def retire(call: Call, usage: Usage, key: bytes, record: bytes, one: Location, due_ms: int) -> bytes:
    """Marks a SERVING location DELETING; returns the record as it is then."""
    usage.moved(one.ref, "s", "p", size_at(record, one.at))
    marked = record[: one.at] + bytes((DELETING,)) + record[one.at + 1 :]
    add_pending(call, due_ms, b"d", key, marked[one.at : one.stop])
    return marked
