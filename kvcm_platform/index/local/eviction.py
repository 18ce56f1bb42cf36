"""Eviction of what a reclaim run chose. The twin of `index/lua/3_eviction.lua`."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvcm_platform.index import keyspace

from .changes import (
    DELETING,
    KEY_BYTES,
    SERVING,
    WRITING,
    Accounts,
    Call,
    Event,
    Location,
    Usage,
    add_pending,
    leave,
    locations,
    note_gone,
    run_name,
    size_at,
    split_keys,
)

LOOK = 512
"""Blocks that one call reads."""
_ARGS_BEFORE_RUNS = 5


@dataclass(frozen=True, slots=True)
class _Wish:
    name: bytes
    highest: int
    most: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """What may go: blocks finished up to a time, on some storages (None = on any)."""

    written_before_ms: int
    numbers: frozenset[int] | None


def _wishes(args: Sequence[bytes]) -> Iterator[_Wish]:
    for at in range(_ARGS_BEFORE_RUNS, len(args), 3):
        yield _Wish(args[at], int(args[at + 1]), int(args[at + 2]))


def _location_of(record: bytes, run: bytes) -> Location | None:
    for one in locations(record):
        if one.stop > len(record):
            raise ValueError("a record ends before its last location does")
        if run_name(record, one.at) == run:
            return one
    return None


def _choose(
    wish: _Wish, keys: Sequence[bytes], records: Mapping[bytes, bytes | None], rule: _Rule
) -> tuple[list[tuple[bytes, Location]], int]:
    """What goes of one run, from its tail, and how many blocks stay as one is being written or too young."""
    chosen: list[tuple[bytes, Location]] = []
    for index in range(len(keys) - 1, -1, -1):
        if len(chosen) >= wish.most:
            break
        record = records[keys[index]]
        one = None if record is None else _location_of(record, wish.name)
        if record is None or one is None:
            continue
        time_ms = int.from_bytes(record[one.at + 21 : one.at + 27])
        if one.status == WRITING or (one.status == SERVING and time_ms > rule.written_before_ms):
            return chosen, min(wish.most - len(chosen), index + 1)
        if one.status == SERVING:
            if rule.numbers is None or one.ref & 0xFFFF in rule.numbers:
                chosen.append((keys[index], one))
        elif one.status != DELETING:
            raise ValueError(f"a location has the state {one.status}")
    return chosen, 0


def evict(call: Call, args: Sequence[bytes]) -> list[object]:
    """Marks the tails of runs DELETING; arguments and reply are explained in the Lua file."""
    call.enter(args[0])
    run_id, due_ms = args[1], call.now_ms + int(args[2])
    numbers = frozenset(n for (n,) in struct.iter_unpack(">H", args[4])) if args[4] else None
    rule = _Rule(int(args[3]), numbers)
    used: list[bytes] = []
    poisoned: list[bytes] = []
    looked: list[tuple[_Wish, list[bytes]]] = []
    done = read = 0
    seen: set[bytes] = set()
    for done, (wish, blob, score) in enumerate(_runs(call, list(_wishes(args))), 1):
        if wish.name in seen:
            # Nothing is marked yet: it would give the same blocks a second time.
            done -= 1
            break
        seen.add(wish.name)
        if blob is None or score is None:
            continue
        if score > wish.highest:
            used.append(wish.name)
        elif len(blob) % KEY_BYTES:
            poisoned += [wish.name, b"its list of blocks has %d bytes" % len(blob)]
        else:
            keys = split_keys(blob)
            if read and read + len(keys) > LOOK:
                done -= 1
                break
            read += len(keys)
            looked.append((wish, keys))
    fields = list(dict.fromkeys(key for _, keys in looked for key in keys))
    records = dict(zip(fields, call.tx.hmget(keyspace.blocks(call.base), fields), strict=True))
    young = 0
    going: list[tuple[bytes, bytes, Location]] = []
    for wish, keys in looked:
        try:
            chosen, passed = _choose(wish, keys, records, rule)
        except (ValueError, IndexError) as error:
            poisoned += [wish.name, str(error).encode()]
            continue
        young += passed
        going += [(wish.name, key, one) for key, one in chosen]
    totals = _mark(call, run_id, due_ms, records, going)
    by_ref = [part for ref, (count, size) in totals.items() for part in (ref, count, b"%d" % size)]
    return [done, young, used, poisoned, by_ref]


def _runs(call: Call, wishes: Sequence[_Wish]) -> Iterator[tuple[_Wish, bytes | None, float | None]]:
    blobs = call.tx.hmget(keyspace.runs(call.base), [wish.name for wish in wishes])
    for wish, blob in zip(wishes, blobs, strict=True):
        yield wish, blob, call.tx.zscore(keyspace.recency(call.base), wish.name)


def _mark(
    call: Call,
    run_id: bytes,
    due_ms: int,
    records: Mapping[bytes, bytes | None],
    going: Sequence[tuple[bytes, bytes, Location]],
) -> dict[int, tuple[int, int]]:
    """Returns storage ref -> (blocks, bytes)."""
    if not going:
        return {}
    changed: dict[bytes, bytes] = {}
    totals: dict[int, tuple[int, int]] = {}
    usage, accounts = Usage(), Accounts()
    for _, key, one in going:
        record = changed.get(key) or records[key] or b""
        entry = bytes((DELETING,)) + record[one.at + 1 : one.stop]
        size = size_at(entry)
        changed[key] = record[: one.at] + entry + record[one.stop :]
        add_pending(call, due_ms, b"e" + run_id, key, entry)
        usage.moved(one.ref, "s", "p", size)
        accounts.add(run_id, b"m", 1, size)
        count, total = totals.get(one.ref, (0, 0))
        totals[one.ref] = (count + 1, total + size)
    call.tx.hset(keyspace.blocks(call.base), changed)
    leave(call, usage, (Event(b"drop", list(changed), sorted({run for run, _, _ in going})),))
    accounts.apply(call)
    note_gone(call, b"reclaim:" + run_id.hex().encode(), list(changed))
    return totals
