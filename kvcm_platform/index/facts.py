"""Facts: what happened in the data plane, for live pages, totals and (later) capture.

A metadata process collects in `FactsBuffer` (plain additions, no I/O) and flushes about five
times a second. The format is described in docs/architecture.md.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import keyspace

BUCKETS_US = (50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 409_600, 1_638_400)
"""Upper bounds of the latency buckets in microseconds; one more bucket takes what is above."""

TIMED = ("read", "write")
"""Kinds of calls whose latency is kept by instance: those that ask for blocks, those that bring them."""

STREAM_LENGTH = 20_000

COUNTER_NAMES = (
    "requests",
    "requested_blocks",
    "hit_blocks",
    "written_blocks",
    "removed_blocks",
    "write_refused",
    "failed_blocks",
    "quota_refused",
)

GROUP_COUNTER_NAMES = (
    "allowed_calls",
    "allowed_blocks",
    "refused_calls",
    "refused_blocks",
    "refused_sessions",
)
"""Counted while a group has limits (core.admission)."""


@dataclass(frozen=True, slots=True)
class RpcFacts:
    count: int
    errors: int
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """One flush of one process. `at` is unix milliseconds, `window_ms` what it covers."""

    process: str
    at: int
    window_ms: int
    rpcs: Mapping[str, RpcFacts]
    instances: Mapping[str, Mapping[str, int]]
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    latencies: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """instance id -> kind (`TIMED`) -> calls by bucket, without the zeros at the end."""


def decode(fields: Mapping[bytes, bytes]) -> Facts:
    data = json.loads(fields[b"d"])
    rpcs = {
        name: RpcFacts(rpc["count"], rpc["errors"], tuple(rpc["us"])) for name, rpc in data["rpc"].items()
    }
    # Processes of an earlier version say nothing of groups and latencies.
    return Facts(
        data["process"],
        data["at"],
        data["window_ms"],
        rpcs,
        data["instances"],
        data.get("groups", {}),
        data.get("latencies", {}),
    )


def quantile_ms(buckets: Sequence[int], q: float) -> float | None:
    """Upper bound of the bucket that holds the q-quantile, in ms; None without calls."""
    total = sum(buckets)
    if not total:
        return None
    seen = 0
    for index, count in enumerate(buckets):
        seen += count
        if seen >= q * total:
            return BUCKETS_US[min(index, len(BUCKETS_US) - 1)] / 1000
    return BUCKETS_US[-1] / 1000


class FactsBuffer:
    """Additions between two flushes."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._since = time.monotonic()
        self._rpcs: dict[str, list[Any]] = {}
        self._instances: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._groups: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._latencies: dict[tuple[str, str], list[int]] = {}

    def rpc(self, name: str, seconds: float, is_error: bool, timed: str = "", instance_id: str = "") -> None:
        """One call. With `timed` (one of TIMED) it counts for the instance, too, which must exist:
        what is kept here grows with every id that is named.
        """
        row = self._rpcs.get(name)
        if row is None:
            row = self._rpcs[name] = [0, 0, [0] * (len(BUCKETS_US) + 1)]
        bucket = bisect_left(BUCKETS_US, seconds * 1e6)
        row[0] += 1
        row[1] += is_error
        row[2][bucket] += 1
        if timed:
            calls = self._latencies.get((instance_id, timed))
            if calls is None:
                calls = self._latencies[instance_id, timed] = [0] * (len(BUCKETS_US) + 1)
            calls[bucket] += 1

    def add(self, instance_id: str, **amounts: int) -> None:
        row = self._instances[instance_id]
        for name, amount in amounts.items():
            row[name] += amount

    def add_group(self, group: str, **amounts: int) -> None:
        row = self._groups[group]
        for name, amount in amounts.items():
            row[name] += amount

    def take(self) -> list[tuple[str | int, ...]]:
        """The commands of one flush, or none when nothing happened; starts a new window."""
        now = time.monotonic()
        window_ms = max(1, round((now - self._since) * 1000))
        self._since = now
        if not self._rpcs and not self._instances and not self._groups:
            return []
        data = {
            "process": self._process,
            "at": round(time.time() * 1000),
            "window_ms": window_ms,
            "rpc": {name: {"count": r[0], "errors": r[1], "us": r[2]} for name, r in self._rpcs.items()},
            "instances": self._instances,
            "groups": self._groups,
            "latencies": self._latencies_form(),
        }
        text = json.dumps(data, separators=(",", ":"))
        commands: list[tuple[str | int, ...]] = [
            ("XADD", keyspace.FACTS, "MAXLEN", "~", STREAM_LENGTH, "*", "d", text)
        ]
        for key, rows in ((keyspace.COUNTERS, self._instances), (keyspace.GROUP_COUNTERS, self._groups)):
            for owner, row in rows.items():
                for name, amount in row.items():
                    commands.append(("HINCRBY", key, f"{owner}|{name}", amount))
        self._rpcs = {}
        self._instances = defaultdict(lambda: defaultdict(int))
        self._groups = defaultdict(lambda: defaultdict(int))
        self._latencies = {}
        return commands

    def _latencies_form(self) -> dict[str, dict[str, list[int]]]:
        form: dict[str, dict[str, list[int]]] = defaultdict(dict)
        for (instance_id, timed), calls in self._latencies.items():
            last = max(bucket for bucket, count in enumerate(calls) if count)
            form[instance_id][timed] = calls[: last + 1]
        return form
