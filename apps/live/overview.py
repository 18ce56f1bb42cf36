"""The overview: one picture of the whole platform, read from Redis and never from the database.

One `Overview` a process. It takes in what is new (facts since the last look, usage, processes)
on `refresh` and gives the result as a JSON-ready picture; the live feed and REST share it.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import redis
import structlog

from apps.common.redis_client import figures_client
from kvcm_platform.core.registry import Registry
from kvcm_platform.core.validation.values import INT64
from kvcm_platform.index import keyspace, reclaim_desk, stats
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.facts import decode

from . import processes
from .history import History
from .index_faults import IndexFaults
from .traffic import BLOCKS_SECONDS, Traffic
from .verdict import UNREACHABLE, verdict
from .verification import verification

log = structlog.get_logger(__name__)

_FACTS_A_READ = 2000
_TOTAL_NAMES = (
    "requests",
    "requested_blocks",
    "hit_blocks",
    "written_blocks",
    "write_refused",
    "quota_refused",
)
_COUNTERS_SHARE = 0.05
"""Reading all counters may take this share of the time: with many instances it is done less often."""
_NO_TOTALS = dict.fromkeys(_TOTAL_NAMES, 0)

Picture = dict[str, Any]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Overview:
    """What is known of the platform. Safe to use from several threads."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._traffic = Traffic()
        self._history = History(client)
        self._faults = IndexFaults(client)
        self._last_id = f"{int((time.time() - BLOCKS_SECONDS) * 1000)}-0"
        self._registry = Registry()
        self._registry_version: int | None = None
        self._totals: Mapping[str, int] = _NO_TOTALS
        self._totals_due = 0.0
        self._picture: Picture | None = None
        self._pictured_at = 0.0

    def picture(self, *, max_age: float = 0.0) -> Picture:
        """The whole picture with its history, at most `max_age` seconds old.

        When Redis does not answer it is the last one known with the verdict "down".
        """
        with self._lock:
            now = time.time()
            if self._picture is None or now - self._pictured_at > max_age:
                self._picture = self._refreshed(now)
                self._pictured_at = now
            return {**self._picture, "history": self._history.points(now)}

    def change(self) -> Picture:
        """The picture of now without history, with the newest history point when there is a new one."""
        with self._lock:
            now = time.time()
            newest = self._history.newest
            self._picture = self._refreshed(now)
            self._pictured_at = now
            point = self._history.newest
            return self._picture if point is newest else {**self._picture, "history_point": point}

    def _refreshed(self, now: float) -> Picture:
        try:
            figures = self._read(now)
        except (redis.RedisError, OSError):
            figures = {**(self._picture or _EMPTY), "verdict": _verdict_form(UNREACHABLE)}
        self._traffic.forget(now)
        blocks = self._traffic.blocks(now)
        rpcs = self._traffic.rpcs(now)
        figures = {
            **figures,
            "requests_per_second": round(sum(rpc.per_second for rpc in rpcs), 2),
            "requested_blocks": blocks.requested,
            "hit_blocks": blocks.hit,
            "hit_rate": blocks.hit_rate,
            "rpcs": [rpc._asdict() for rpc in rpcs],
        }
        self._history.note(figures, now)
        return figures

    def _read(self, now: float) -> Picture:
        self._read_facts(now)
        self._read_registry()
        self._read_totals()
        groups = self._registry.groups.values()
        usages = stats.group_usages(self._client, [group.number for group in groups])
        states = processes.read(self._client, now)
        storages = self._registry.storages.values()
        troubles = {group: one.reason for group, one in reclaim_desk.troubles(self._client).items()}
        faults = self._faults.sentences({group.number: group.name for group in groups})
        judged = verdict(self._registry, usages, states, verification(self._client), troubles, faults)
        return {
            "totals": dict(self._totals),
            "used_bytes": sum(usage.used_bytes for usage in usages.values()),
            "reserved_bytes": sum(usage.reserved_bytes for usage in usages.values()),
            "pending_bytes": sum(usage.pending_bytes for usage in usages.values()),
            # A message has no larger numbers; several groups may have as much as one can.
            "quota_bytes": min(INT64, sum(group.quota.capacity_bytes for group in groups)),
            "blocks": sum(usage.blocks for usage in usages.values()),
            "open_write_sessions": stats.open_sessions(self._client, list(self._registry.instances.values())),
            "storages_healthy": sum(storage.is_served for storage in storages),
            "storages_total": len(storages),
            "groups_total": len(groups),
            "instances_total": len(self._registry.instances),
            "processes": [_process_form(state) for state in states],
            "day": self._figures(keyspace.OVERVIEW_DAY),
            "savings": self._figures(keyspace.OVERVIEW_SAVINGS),
            "verdict": _verdict_form(judged),
        }

    def _read_facts(self, now: float) -> None:
        while True:
            entries = self._client.xrange(keyspace.FACTS, min=f"({self._last_id}", count=_FACTS_A_READ)
            for entry_id, fields in entries:
                self._last_id = entry_id.decode()
                try:
                    self._traffic.add(decode(fields), now)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    # Of a process of another version: the figures go on without it.
                    log.error("an entry of the facts cannot be read", entry=self._last_id, reason=repr(error))
            if len(entries) < _FACTS_A_READ:
                return

    def _read_registry(self) -> None:
        version = index_registry.read_version(self._client)
        if version != self._registry_version:
            self._registry = index_registry.read(self._client)
            self._registry_version = version

    def _figures(self, key: str) -> Picture | None:
        """Of the last 24 hours or of this month; None before there are any, or while nobody makes them."""
        text = self._client.get(key)
        if text is None:
            return None
        try:
            figures = json.loads(text)
            return {**figures, "since": iso(figures["since"]), "until": iso(figures["until"])}
        except (KeyError, TypeError, ValueError) as error:
            log.error("figures of the overview cannot be read", key=key, reason=repr(error))
            return None

    def _read_totals(self) -> None:
        """Sums over all instances that ever were: those of removed ones are in fields without an id."""
        began = time.monotonic()
        if began < self._totals_due:
            return
        totals: Counter[str] = Counter()
        for field, value in self._client.hgetall(keyspace.COUNTERS).items():
            totals[field.decode().rpartition("|")[2]] += int(value)
        self._totals = {name: totals[name] for name in _TOTAL_NAMES}
        took = time.monotonic() - began
        self._totals_due = began + took / _COUNTERS_SHARE if took > 0.01 else began


def _process_form(state: processes.ProcessState) -> Picture:
    return {
        "role": state.role,
        "node": state.node,
        "pid": state.pid,
        "state": state.state,
        "started_at": iso(state.started_at),
        "seen_at": iso(state.seen_at),
        "restarts": state.restarts,
    }


def _verdict_form(judged: Any) -> Picture:
    return {"state": judged.state, "reasons": list(judged.reasons)}


_EMPTY: Picture = {
    "totals": _NO_TOTALS,
    **dict.fromkeys(
        ("used_bytes", "reserved_bytes", "pending_bytes", "quota_bytes", "blocks", "open_write_sessions"), 0
    ),
    **dict.fromkeys(("storages_healthy", "storages_total", "groups_total", "instances_total"), 0),
    **dict.fromkeys(("day", "savings")),
    "processes": [],
}


@lru_cache(maxsize=1)
def overview() -> Overview:
    """This process's overview."""
    return Overview(figures_client())
