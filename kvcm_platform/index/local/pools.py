"""Which ranges of a memory segment are taken. The twin of `index/lua/9_pool.lua`."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kvcm_platform.index import keyspace
from kvcm_platform.index.pools import BUCKET, PLACE

from .changes import Call

FREE_PLACE = bytes(PLACE)
LIFE_MARGIN_US = 2_000_000
MANY = 520
"""Runs with room that a call looks at, at most."""
PAGE = 1024
_RUN = struct.Struct(">6s3sI")
_TAKEN = struct.Struct(">III")
_FULL = 0xFF

Reply = list[bytes | int]
Emit = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class _Class:
    slot_bytes: int
    slabs: int
    slots: int

    @classmethod
    def of(cls, args: Sequence[bytes]) -> _Class:
        return cls(*map(int, args))


@dataclass(slots=True)
class _Run:
    """Contiguous slabs in slots of one size; `bits` has one a slot, and is empty where there is one slot."""

    slot_bytes: int
    slabs: int
    taken: int
    bits: bytearray

    @property
    def has_room(self) -> bool:
        return any(value != _FULL for value in self.bits)

    def is_taken(self, slot: int) -> bool:
        return not self.bits or bool(self.bits[slot // 8] >> slot % 8 & 1)

    def pack(self) -> bytes:
        head = _RUN.pack(self.slot_bytes.to_bytes(6), self.slabs.to_bytes(3), self.taken)
        return head + bytes(self.bits)

    @classmethod
    def unpack(cls, raw: bytes) -> _Run:
        size, slabs, taken = _RUN.unpack_from(raw)
        return cls(int.from_bytes(size), int.from_bytes(slabs), taken, bytearray(raw[_RUN.size :]))


@dataclass(slots=True)
class _Room:
    """Runs with room for slots of a size, as a call finds them, and the ones that it opens."""

    runs: list[int]
    at: int = 0


@dataclass(slots=True)
class _Runs:
    """The runs of a segment during one call: read when they are needed, written by `store`."""

    call: Call
    total: int
    first_page: int
    """The first page of the map with room, as far as is known."""
    _pages: dict[int, bytearray] = field(default_factory=dict)
    _changed_pages: set[int] = field(default_factory=set)
    _known: dict[int, _Run | None] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    """Slot bytes of the runs that changed."""
    _rooms: dict[int, _Room] = field(default_factory=dict)
    _delta: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def get(self, number: int) -> _Run | None:
        if number not in self._known:
            raw = self.call.tx.hget(keyspace.pool_runs(self.call.base), number.to_bytes(4))
            self._known[number] = None if raw is None else _Run.unpack(raw)
        return self._known[number]

    def _page(self, page: int) -> bytearray:
        if page not in self._pages:
            raw = self.call.tx.hget(self.call.base, b"p:m:%d" % page)
            self._pages[page] = bytearray(raw or b"0" * min(PAGE, self.total - page * PAGE))
        return self._pages[page]

    def is_free(self, number: int, slabs: int) -> bool:
        page, at = divmod(number, PAGE)
        return page * PAGE < self.total and self._page(page)[at : at + slabs] == b"0" * slabs

    def _mark_slabs(self, number: int, slabs: int, value: bytes) -> None:
        page, at = divmod(number, PAGE)
        self._page(page)[at : at + slabs] = value * slabs
        self._changed_pages.add(page)
        if value == b"0":
            self.first_page = min(self.first_page, page)

    def _free_slabs(self, slabs: int) -> int | None:
        """The first free slabs side by side; no run goes over the end of a page."""
        while self.first_page * PAGE < self.total and b"0" not in self._page(self.first_page):
            self.first_page += 1
        page = self.first_page
        while page * PAGE < self.total:
            at = self._page(page).find(b"0" * slabs)
            if at >= 0:
                return page * PAGE + at
            page += 1
        return None

    def open(self, number: int, kind: _Class) -> _Run:
        """A fresh run where the slabs are known to be free."""
        bits = bytearray()
        if kind.slots > 1:
            whole, rest = divmod(kind.slots, 8)
            bits = bytearray(whole) + (bytes((256 - (1 << rest),)) if rest else b"")
        run = _Run(kind.slot_bytes, kind.slabs, 0, bits)
        self._known[number] = run
        self._changed(number, run, run.slabs)
        self._mark_slabs(number, run.slabs, b"1")
        return run

    def _changed(self, number: int, run: _Run, slabs: int = 0) -> None:
        self._sizes[number] = run.slot_bytes
        self._delta["p:used"] += slabs
        self._delta[f"p:s:{run.slot_bytes}"] += slabs

    def mark(self, number: int, run: _Run, slots: Sequence[int], *, is_taken: bool) -> None:
        """Marks slots as taken or free. The slabs of an emptied run go back."""
        amount = len(slots) if is_taken else -len(slots)
        run.taken += amount
        self._delta[f"p:c:{run.slot_bytes}"] += amount
        self._changed(number, run)
        if run.taken == 0:
            self._known[number] = None
            self._mark_slabs(number, run.slabs, b"0")
            self._changed(number, run, -run.slabs)
        elif run.bits:
            for slot in slots:
                run.bits[slot // 8] ^= 1 << slot % 8

    def _fill(self, number: int, run: _Run, wanted: int, emit: Emit) -> int:
        """Takes up to `wanted` slots of a run, lowest first."""
        got = 0
        if not run.bits:
            emit(number, 0, 1)
            got = 1
        for at, value in enumerate(run.bits):
            if got == wanted:
                break
            for slot in range(at * 8, at * 8 + 8):
                if got < wanted and not value >> slot % 8 & 1:
                    run.bits[at] |= 1 << slot % 8
                    got += 1
                    emit(number, slot, 1)
        run.taken += got
        self._delta[f"p:c:{run.slot_bytes}"] += got
        self._changed(number, run)
        return got

    def _with_room(self, slot_bytes: int) -> int | None:
        """The lowest run with room for slots of a size."""
        room = self._rooms.get(slot_bytes)
        if room is None:
            name = keyspace.pool_runs_with_room(self.call.base, slot_bytes)
            found = self.call.tx.lowest(name, float("inf"), MANY)
            room = self._rooms[slot_bytes] = _Room([int.from_bytes(member) for member, _ in found])
        while room.at < len(room.runs):
            run = self.get(room.runs[room.at])
            if run is not None and run.has_room:
                return room.runs[room.at]
            room.at += 1
        return None

    def take(self, kind: _Class, wanted: int, emit: Emit) -> bool:
        """Takes slots of a class; False when there is no room (nothing may be stored then)."""
        while wanted:
            number = self._with_room(kind.slot_bytes)
            run = None if number is None else self.get(number)
            if number is None or run is None:
                number = self._free_slabs(kind.slabs)
                if number is None:
                    return False
                run = self.open(number, kind)
                self._rooms[kind.slot_bytes].runs.append(number)
            wanted -= self._fill(number, run, wanted, emit)
        return True

    def store(self, fields: dict[bytes, bytes]) -> None:
        tx, base = self.call.tx, self.call.base
        fields[b"p:page"] = b"%d" % self.first_page
        for page in self._changed_pages:
            fields[b"p:m:%d" % page] = bytes(self._pages[page])
        for number, slot_bytes in self._sizes.items():
            run, member = self._known[number], number.to_bytes(4)
            room = keyspace.pool_runs_with_room(base, slot_bytes)
            if run is None:
                tx.hdel(keyspace.pool_runs(base), member)
            else:
                tx.hset(keyspace.pool_runs(base), {member: run.pack()})
            if run is not None and run.has_room:
                tx.zadd(room, member, number)
            else:
                tx.zrem(room, member)
        for name, amount in self._delta.items():
            if amount and tx.hincrby(base, name.encode(), amount) == 0:
                tx.hdel(base, name.encode())
        tx.hset(base, fields)


def _note_ids(call: Call, first: int, places: Sequence[bytes]) -> None:
    """Notes the places of ids that follow each other."""
    name, at = keyspace.pool_ranges(call.base), 0
    while at < len(places):
        bucket, low = divmod(first + at, BUCKET)
        part = places[at : at + BUCKET - low]
        value = call.tx.hget(name, bucket.to_bytes(6)) or bytes((low,))
        missing = low - value[0] - (len(value) - 1) // PLACE
        value += FREE_PLACE * missing + b"".join(part)
        call.tx.hset(name, {bucket.to_bytes(6): value})
        at += len(part)


@dataclass(slots=True)
class _Taken:
    """Slots in the order in which they were taken, and as (run, first slot, count) triples."""

    places: list[bytes] = field(default_factory=list)
    triples: list[tuple[int, int, int]] = field(default_factory=list)
    is_closed: bool = True

    def emit(self, run: int, slot: int, count: int) -> None:
        last = self.triples[-1] if not self.is_closed else None
        if last is not None and (last[0], last[1] + last[2]) == (run, slot):
            self.triples[-1] = (last[0], last[1], last[2] + count)
        else:
            self.triples.append((run, slot, count))
        self.is_closed = False
        self.places += [(run + 1).to_bytes(3) + at.to_bytes(3) for at in range(slot, slot + count)]


def take(call: Call, args: Sequence[bytes]) -> Reply:
    """Takes ranges under a lease, all or none."""
    tx, base = call.tx, call.base
    names = (b"p:id", b"p:slabs", b"p:gone", b"gen", b"p:used", b"p:page")
    newest, slabs, is_gone, life, used, page = tx.hmget(base, names)
    call.enter(args[0])
    lease, insert_by, purpose, total = args[1], int(args[2]), args[3], int(args[4])
    if call.now_ms > insert_by:
        return [b"LATE"]
    if is_gone:
        return [b"GONE"]
    runs, taken = _Runs(call, total, int(page or b"0")), _Taken()
    for at in range(5, len(args), 4):
        if not runs.take(_Class.of(args[at : at + 3]), int(args[at + 3]), taken.emit):
            return [b"FULL", total - int(used or b"0")]
        taken.is_closed = True
    now_us = call.now_ms * 1000
    if life != args[0].partition(b":")[0]:
        now_us += LIFE_MARGIN_US
    first, count = max(int(newest or b"0") + 1, now_us), len(taken.places)
    fields = {b"p:id": b"%d" % (first + count - 1)}
    if slabs is None:
        fields[b"p:slabs"] = args[4]
    runs.store(fields)
    _note_ids(call, first, taken.places)
    tx.hset(keyspace.pool_leases(base), {lease: first.to_bytes(8) + count.to_bytes(2) + purpose})
    tx.zadd(keyspace.pool_lease_deadlines(base), lease, insert_by)
    free = total - int(tx.hget(base, b"p:used") or b"0")
    return [b"OK", first, free, b"".join(_TAKEN.pack(*triple) for triple in taken.triples)]


def _ids(blob: bytes) -> Iterator[int]:
    return (int.from_bytes(blob[at : at + 8]) for at in range(0, len(blob), 8))


def free(call: Call, args: Sequence[bytes]) -> int:
    """These ranges may be given out again; ids that are not taken change nothing."""
    call.enter(args[0])
    slabs, page = call.tx.hmget(call.base, (b"p:slabs", b"p:page"))
    if slabs is None:
        return 0
    name, by_run = keyspace.pool_ranges(call.base), defaultdict[int, list[int]](list)
    buckets = defaultdict[bytes, set[int]](set)
    for number in _ids(args[1]):
        buckets[(number // BUCKET).to_bytes(6)].add(number % BUCKET)
    for bucket, value in zip(buckets, call.tx.hmget(name, list(buckets)), strict=True):
        left = bytearray(value or b"\0")
        for low in buckets[bucket]:
            at = 1 + (low - left[0]) * PLACE
            place = left[at : at + PLACE] if at > 0 else b""
            if any(place):
                by_run[int.from_bytes(place[:3]) - 1].append(int.from_bytes(place[3:]))
                left[at : at + PLACE] = FREE_PLACE
        if any(left[1:]):
            call.tx.hset(name, {bucket: bytes(left)})
        elif value is not None:
            call.tx.hdel(name, bucket)
    runs = _Runs(call, int(slabs), int(page or b"0"))
    for number, slots in by_run.items():
        run = runs.get(number)
        if run is not None:
            runs.mark(number, run, slots, is_taken=False)
    if by_run:
        runs.store({})
    return sum(map(len, by_run.values()))


def restore(call: Call, args: Sequence[bytes]) -> int:
    """Takes a range that something refers to although it is free; 0 when another has it."""
    call.enter(args[0])
    number, at_run, slot = int(args[1]), int(args[2]), int(args[3])
    kind, total = _Class.of(args[4:7]), int(args[7])
    page, is_gone, newest = call.tx.hmget(call.base, (b"p:page", b"p:gone", b"p:id"))
    if is_gone:
        return 0
    runs = _Runs(call, total, int(page or b"0"))
    run = runs.get(at_run)
    if run is None:
        if not runs.is_free(at_run, kind.slabs):
            return 0
        run = runs.open(at_run, kind)
    elif run.slot_bytes != kind.slot_bytes or run.is_taken(slot):
        return 0
    name, bucket, low = keyspace.pool_ranges(call.base), (number // BUCKET).to_bytes(6), number % BUCKET
    value = call.tx.hget(name, bucket) or bytes((low,))
    if low < value[0]:
        value = bytes((low,)) + FREE_PLACE * (value[0] - low) + value[1:]
    at = 1 + (low - value[0]) * PLACE
    if any(value[at : at + PLACE]):
        return 0
    value = value.ljust(at + PLACE, b"\0")
    place = (at_run + 1).to_bytes(3) + slot.to_bytes(3)
    call.tx.hset(name, {bucket: value[:at] + place + value[at + PLACE :]})
    runs.mark(at_run, run, [slot], is_taken=True)
    runs.store({b"p:id": b"%d" % max(number, int(newest or b"0")), b"p:slabs": args[7]})
    return 1


def settle(call: Call, args: Sequence[bytes]) -> int:
    """These leases are over; what becomes of their ranges is on record elsewhere."""
    call.enter(args[0])
    call.tx.hdel(keyspace.pool_leases(call.base), *args[1:])
    for lease in args[1:]:
        call.tx.zrem(keyspace.pool_lease_deadlines(call.base), lease)
    return len(args) - 1


def drop(call: Call, args: Sequence[bytes]) -> int:
    """The segment is lost: nothing is taken of it any more, and nothing can be."""
    call.enter(args[0])
    tx, base = call.tx, call.base
    sets = [keyspace.pool_lease_deadlines(base)]
    for name in tx.hgetall(base):
        if name.startswith(b"p:s:"):
            sets.append(keyspace.pool_runs_with_room(base, int(name[4:])))
        if name.startswith(b"p:"):
            tx.hdel(base, name)
    for name_of in (keyspace.pool_ranges, keyspace.pool_runs, keyspace.pool_leases):
        tx.hdel(name_of(base), *tx.hgetall(name_of(base)))
    for each in sets:
        for member, _ in tx.lowest(each, float("inf"), tx.zcard(each)):
            tx.zrem(each, member)
    tx.hset(base, {b"p:gone": b"1"})
    return 1
