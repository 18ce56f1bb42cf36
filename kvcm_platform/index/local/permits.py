"""Fairness limits of a group. The twin of `index/lua/8_permits.lua`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvcm_platform.index import keyspace

from .changes import Call

BURST_SECONDS = 0.1
BATCH_SECONDS = 0.02
NAMES = (b"calls", b"blocks")


@dataclass(frozen=True, slots=True)
class _Bucket:
    """One token bucket as it stands now; `rate` permits a second flow in."""

    rate: float
    level: float

    @property
    def batch(self) -> float:
        return max(1, math.floor(self.rate * BATCH_SECONDS))

    @property
    def burst(self) -> float:
        return max(1.0, self.rate * BURST_SECONDS)

    def wait_ms(self) -> int:
        return math.ceil((min(self.batch, self.burst) - self.level) / self.rate * 1000)

    def grant(self, needed: int) -> int:
        return int(max(needed, min(self.batch, math.floor(self.level))))


def permits(call: Call, args: Sequence[bytes]) -> list[int | bytes]:
    """Draws for one call; [1, calls, blocks], or [0, limit's name, its value, ms until a batch is there]."""
    name = keyspace.group_permits(call.base)
    limits = call.tx.hmget(keyspace.group_limits(call.base), NAMES)
    *levels, at = call.tx.hmget(name, (*NAMES, b"at"))
    elapsed = max(0, call.now_ms - int(at)) / 1000 if at is not None else 0.0
    buckets = [
        _bucket(limit, level, int(given), elapsed)
        for limit, level, given in zip(limits, levels, args[1:3], strict=True)
    ]
    needs = (1, int(args[0]))
    refused: list[int | bytes] = []
    for field, limit, bucket, needed in zip(NAMES, limits, buckets, needs, strict=True):
        if bucket is not None and bucket.level < 1 and needed > 0 and not refused:
            refused = [0, field, limit or b"", bucket.wait_ms()]
    grants = [-1 if one is None else one.grant(need) for one, need in zip(buckets, needs, strict=True)]
    fields = {b"at": b"%d" % call.now_ms}
    for field, bucket, grant in zip(NAMES, buckets, grants, strict=True):
        if bucket is not None:
            fields[field] = b"%.6f" % (bucket.level if refused else bucket.level - grant)
    call.tx.hset(name, fields)
    return refused or [1, *grants]


def _bucket(limit: bytes | None, level: bytes | None, given: int, elapsed: float) -> _Bucket | None:
    """None where there is no limit."""
    rate = float(limit or b"0")
    if rate <= 0:
        return None
    full = _Bucket(rate, max(1.0, rate * BURST_SECONDS))
    if level is None:
        return full
    return _Bucket(rate, min(full.burst, float(level) + given + rate * elapsed))


def session_enter(call: Call, args: Sequence[bytes]) -> list[int]:
    """Counts an open write session; [1], or [0, most of the group]."""
    ratio = float(call.tx.hget(keyspace.group_limits(call.base), b"sessions") or b"0")
    if ratio <= 0:
        return [1]
    name = keyspace.group_sessions(call.base)
    expired = call.tx.lowest(name, call.now_ms - 1, call.tx.zcard(name))
    for member, _ in expired:
        call.tx.zrem(name, member)
    most = max(1, math.floor(ratio * int(args[2])))
    if call.tx.zcard(name) >= most:
        return [0, most]
    call.tx.zadd(name, args[0], int(args[1]))
    return [1]
