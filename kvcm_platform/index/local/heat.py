"""How often runs were used lately: the twin of `index/lua/3_heat.lua`."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from kvcm_platform.index import keyspace
from kvcm_platform.index.storage_refs import number_of

from .changes import SERVING, Call, locations, run_name, split_keys

HALF_LIFE_MS = 600_000
HEAT_EPOCH = 256
HOT_RUNS = 65_536
USED_RUNS = 1_048_576
_USED = 14


def _weight(now_ms: int) -> tuple[float, bytes]:
    halves = now_ms / HALF_LIFE_MS
    epoch = math.floor(halves / HEAT_EPOCH)
    return 2.0 ** (halves - epoch * HEAT_EPOCH), b"%d" % epoch


def _is_on(call: Call, run: bytes, wanted: frozenset[int]) -> bool:
    blob = call.tx.hget(keyspace.runs(call.base), run)
    record = call.tx.hget(keyspace.blocks(call.base), split_keys(blob, 0, 1)[0]) if blob else None
    return any(
        one.status == SERVING and run_name(record, one.at) == run and number_of(one.ref) in wanted
        for one in locations(record or b"")
        if record is not None
    )


def _note(
    call: Call, name: str, field: bytes, blob: bytes, most: int, is_new: Callable[[bytes], bool]
) -> int:
    """Adds packed (run, uses) to a sorted set; returns the number of runs that are noted now."""
    weight, epoch = _weight(call.now_ms)
    if call.tx.hget(call.base, field) != epoch:
        for run, _ in call.tx.lowest(name, math.inf, call.tx.zcard(name)):
            call.tx.zrem(name, run)
        call.tx.hset(call.base, {field: epoch})
    for at in range(0, len(blob), _USED):
        run, uses = blob[at : at + 10], int.from_bytes(blob[at + 10 : at + _USED])
        known = call.tx.zscore(name, run)
        if known is not None or is_new(run):
            call.tx.zadd(name, run, (known or 0.0) + weight * uses)
    count = call.tx.zcard(name)
    if count > most:
        for run, _ in call.tx.lowest(name, math.inf, count - most):
            call.tx.zrem(name, run)
    return min(count, most)


def heat(call: Call, args: Sequence[bytes]) -> int:
    """Notes uses of runs on some storages."""
    call.enter(args[0])
    wanted = frozenset(int.from_bytes(args[1][at : at + 2]) for at in range(0, len(args[1]), 2))
    name = keyspace.heat(call.base)
    return _note(call, name, b"heat", args[2], HOT_RUNS, lambda run: _is_on(call, run, wanted))


def uses(call: Call, args: Sequence[bytes]) -> int:
    """Notes uses of runs on any storage."""
    call.enter(args[0])
    runs = keyspace.runs(call.base)
    return _note(
        *(call, keyspace.uses(call.base), b"uses", args[1], USED_RUNS),
        lambda run: call.tx.hget(runs, run) is not None,
    )


def hot(call: Call, args: Sequence[bytes]) -> list[bytes]:
    """Runs used at least so often, the hottest first."""
    name = keyspace.heat(call.base)
    weight, epoch = _weight(call.now_ms)
    if call.tx.hget(call.base, b"heat") != epoch:
        return []
    least = weight * (float(args[0]) - 0.5)
    found = [item for item in call.tx.scores(name).items() if item[1] >= least]
    return [run for run, _ in heapq.nlargest(int(args[1]), found, key=lambda item: (item[1], item[0]))]


def cooled(call: Call, args: Sequence[bytes]) -> int:
    """These runs were dealt with."""
    call.enter(args[0])
    return sum(call.tx.zrem(keyspace.heat(call.base), run) for run in args[1:])
