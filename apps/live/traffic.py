"""Sliding windows over the facts of the data plane. Pure: no Redis, no clock of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kvcm_platform.index.facts import Facts, quantile_ms

RATE_SECONDS = 10
"""Calls a second and latencies cover this long."""
BLOCKS_SECONDS = 300
"""Requested and hit blocks cover this long."""


class RpcRate(NamedTuple):
    """One RPC over the last `RATE_SECONDS`."""

    name: str
    per_second: float
    p50_ms: float | None
    p99_ms: float | None
    errors: int


class Blocks(NamedTuple):
    requested: int
    hit: int

    @property
    def hit_rate(self) -> float | None:
        return self.hit / self.requested if self.requested else None


@dataclass(slots=True)
class _Rpc:
    count: int = 0
    errors: int = 0
    buckets: list[int] = field(default_factory=list)

    def add(self, count: int, errors: int, buckets: Iterable[int]) -> None:
        self.count += count
        self.errors += errors
        new = list(buckets)
        longest = max(len(self.buckets), len(new))
        padded = self.buckets + [0] * (longest - len(self.buckets))
        new += [0] * (longest - len(new))
        self.buckets = [old + more for old, more in zip(padded, new, strict=True)]


@dataclass(slots=True)
class _Second:
    """What was reported of one second."""

    second: int
    requested: int = 0
    hit: int = 0
    rpcs: dict[str, _Rpc] = field(default_factory=dict)


class Traffic:
    """Facts gathered by the second in which they were flushed, forgotten after `BLOCKS_SECONDS`."""

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque()

    def add(self, facts: Facts, now: float) -> None:
        """Take one flush. One from the future (another host's clock) counts as of now."""
        at = int(min(facts.at / 1000, now))
        if at <= now - BLOCKS_SECONDS:
            return
        second = self._second(at)
        for amounts in facts.instances.values():
            second.requested += amounts.get("requested_blocks", 0)
            second.hit += amounts.get("hit_blocks", 0)
        for name, rpc in facts.rpcs.items():
            second.rpcs.setdefault(name, _Rpc()).add(rpc.count, rpc.errors, rpc.buckets)

    def _second(self, at: int) -> _Second:
        """The row of one second; rows are in order, and late flushes find theirs near the end."""
        for index in range(len(self._seconds) - 1, -1, -1):
            if self._seconds[index].second == at:
                return self._seconds[index]
            if self._seconds[index].second < at:
                row = _Second(at)
                self._seconds.insert(index + 1, row)
                return row
        row = _Second(at)
        self._seconds.appendleft(row)
        return row

    def forget(self, now: float) -> None:
        while self._seconds and self._seconds[0].second <= now - BLOCKS_SECONDS:
            self._seconds.popleft()

    def blocks(self, now: float) -> Blocks:
        rows = [row for row in self._seconds if row.second > now - BLOCKS_SECONDS]
        return Blocks(sum(row.requested for row in rows), sum(row.hit for row in rows))

    def rpcs(self, now: float) -> list[RpcRate]:
        """Every RPC of the last seconds, the busiest first."""
        totals: dict[str, _Rpc] = {}
        for row in self._seconds:
            if row.second > now - RATE_SECONDS:
                for name, rpc in row.rpcs.items():
                    totals.setdefault(name, _Rpc()).add(rpc.count, rpc.errors, rpc.buckets)
        rates = [
            RpcRate(
                name=name,
                per_second=rpc.count / RATE_SECONDS,
                p50_ms=quantile_ms(tuple(rpc.buckets), 0.5),
                p99_ms=quantile_ms(tuple(rpc.buckets), 0.99),
                errors=rpc.errors,
            )
            for name, rpc in totals.items()
        ]
        return sorted(rates, key=lambda rate: (-rate.per_second, rate.name))

    def requests_per_second(self, now: float) -> float:
        return sum(rate.per_second for rate in self.rpcs(now))
