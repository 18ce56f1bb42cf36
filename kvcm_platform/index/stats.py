"""Figures for pages and reports, read with a blocking client: one pipeline a call for all objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import redis

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import STORAGE_TYPE_BY_WIRE, StorageType

from . import homes, keyspace
from .facts import COUNTER_NAMES, GROUP_COUNTER_NAMES
from .storage_refs import number_of


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """Bytes and blocks of a group as its quota sees them: pushed vectors and open reservations.

    `used_bytes` counts writing, serving and pending deletion; what the quota compares is
    `used_bytes + reserved_bytes`.
    """

    used_bytes: int = 0
    reserved_bytes: int = 0
    pending_bytes: int = 0
    blocks: int = 0
    per_type: Mapping[StorageType, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """`used_bytes` counts writing, serving and pending deletion; `blocks` those written or served."""

    used_bytes: int = 0
    pending_bytes: int = 0
    blocks: int = 0
    writing_bytes: int = 0

    @classmethod
    def of_state(cls, state: str, size: int, count: int) -> StorageUsage:
        """Of what is in one state: w, s or p."""
        if state == "p":
            return cls(used_bytes=size, pending_bytes=size)
        return cls(used_bytes=size, blocks=count, writing_bytes=size if state == "w" else 0)

    def __add__(self, other: StorageUsage) -> StorageUsage:
        return StorageUsage(
            self.used_bytes + other.used_bytes,
            self.pending_bytes + other.pending_bytes,
            self.blocks + other.blocks,
            self.writing_bytes + other.writing_bytes,
        )


@dataclass(frozen=True, slots=True)
class InstanceUsage:
    """Truth of one instance over its shards. `used_bytes` includes pending bytes."""

    used_bytes: int = 0
    pending_bytes: int = 0
    blocks: int = 0
    writing_blocks: int = 0
    open_write_sessions: int = 0
    by_storage: Mapping[int, StorageUsage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Totals since the instance was first seen."""

    requests: int = 0
    requested_blocks: int = 0
    hit_blocks: int = 0
    written_blocks: int = 0
    removed_blocks: int = 0
    write_refused: int = 0
    failed_blocks: int = 0
    quota_refused: int = 0
    """Of `write_refused`, those for want of room: REACH_MAX_ENTITY_CAPACITY."""

    @property
    def hit_rate(self) -> float | None:
        return self.hit_blocks / self.requested_blocks if self.requested_blocks else None


@dataclass(frozen=True, slots=True)
class AdmissionTotals:
    """What a group's limits did since there are any (core.admission)."""

    allowed_calls: int = 0
    allowed_blocks: int = 0
    refused_calls: int = 0
    refused_blocks: int = 0
    refused_sessions: int = 0


def parse_usage(fields: Mapping[bytes, bytes]) -> dict[tuple[int, str], tuple[int, int]]:
    """(storage ref, state) -> (bytes, blocks) of one shard's usage hash; states are w, s, p."""
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for name, value in fields.items():
        if name[:2] in (b"b:", b"n:"):
            _, ref, state = name.decode().split(":")
            found[int(ref), state][name[:2] == b"n:"] = int(value)
    return {where: (amounts[0], amounts[1]) for where, amounts in found.items()}


def parse_vector(raw: bytes) -> dict[tuple[int, str], tuple[int, int]]:
    """The same out of what a shard pushed to its group (lua/4_groups.lua)."""
    _, _, sizes, blocks = msgpack.unpackb(raw)
    found = {}
    for where in sizes.keys() | blocks.keys():
        ref, _, state = where.partition(":")
        found[int(ref), state] = (int(sizes.get(where, 0)), int(blocks.get(where, 0)))
    return found


def group_usages(client: redis.Redis, numbers: Iterable[int]) -> dict[int, GroupUsage]:
    numbers = list(numbers)
    pipeline = client.pipeline(transaction=False)
    for number in numbers:
        pipeline.hgetall(keyspace.group(number))
    return {number: _group_usage(raw) for number, raw in zip(numbers, pipeline.execute(), strict=True)}


def _group_usage(raw: Mapping[bytes, bytes]) -> GroupUsage:
    totals = {name.decode(): int(value) for name, value in raw.items()}
    per_type = {
        kind: totals[f"u:{number}"]
        for number, kind in STORAGE_TYPE_BY_WIRE.items()
        if totals.get(f"u:{number}")
    }
    return GroupUsage(
        used_bytes=totals.get("u", 0),
        reserved_bytes=totals.get("r", 0),
        pending_bytes=totals.get("p", 0),
        blocks=totals.get("n", 0),
        per_type=per_type,
    )


def instance_usages(client: redis.Redis, entries: Sequence[InstanceEntry]) -> dict[str, InstanceUsage]:
    """Usage by instance id."""
    pipeline = client.pipeline(transaction=False)
    for entry in entries:
        for shard in range(entry.shards):
            pipeline.hgetall(keyspace.instance(entry.number, shard))
        _ask_open_sessions(pipeline, entry)
    replies = iter(pipeline.execute())
    return {entry.instance_id: _instance_usage(entry, replies) for entry in entries}


def _instance_usage(entry: InstanceEntry, replies: Any) -> InstanceUsage:
    by_storage: dict[int, StorageUsage] = {}
    writing = 0
    for _ in range(entry.shards):
        for (ref, state), (size, count) in parse_usage(next(replies)).items():
            number = number_of(ref)
            part = StorageUsage.of_state(state, size, count)
            by_storage[number] = by_storage.get(number, StorageUsage()) + part
            writing += count if state == "w" else 0
    return InstanceUsage(
        used_bytes=sum(usage.used_bytes for usage in by_storage.values()),
        pending_bytes=sum(usage.pending_bytes for usage in by_storage.values()),
        blocks=sum(usage.blocks for usage in by_storage.values()),
        writing_blocks=writing,
        open_write_sessions=next(replies) + int(next(replies) or 0),
        by_storage=by_storage,
    )


def open_sessions(client: redis.Redis, entries: Sequence[InstanceEntry]) -> int:
    pipeline = client.pipeline(transaction=False)
    for entry in entries:
        _ask_open_sessions(pipeline, entry)
    return sum(int(reply or 0) for reply in pipeline.execute())


def _ask_open_sessions(pipeline: Any, entry: InstanceEntry) -> None:
    """Two numbers: those in Redis, and those of an index in a metadata process."""
    pipeline.zcard(keyspace.open_sessions(entry.number, entry.shards))
    pipeline.hget(keyspace.instance(entry.number, 0), homes.SESSIONS)


def counters(client: redis.Redis, instance_ids: Sequence[str]) -> dict[str, Traffic]:
    """Totals by instance id."""
    if not instance_ids:
        return {}
    names = [f"{instance_id}|{name}" for instance_id in instance_ids for name in COUNTER_NAMES]
    values = iter(client.hmget(keyspace.COUNTERS, names))
    return {
        instance_id: Traffic(**{name: int(next(values) or 0) for name in COUNTER_NAMES})
        for instance_id in instance_ids
    }


def admissions(client: redis.Redis, groups: Sequence[str]) -> dict[str, AdmissionTotals]:
    """Totals by group."""
    if not groups:
        return {}
    names = [f"{group}|{name}" for group in groups for name in GROUP_COUNTER_NAMES]
    values = iter(client.hmget(keyspace.GROUP_COUNTERS, names))
    return {
        group: AdmissionTotals(**{name: int(next(values) or 0) for name in GROUP_COUNTER_NAMES})
        for group in groups
    }


def admissions_of_all(client: redis.Redis) -> dict[str, AdmissionTotals]:
    """Totals of every group that has any."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for field_name, value in client.hgetall(keyspace.GROUP_COUNTERS).items():
        group, _, name = field_name.decode().partition("|")
        if name in GROUP_COUNTER_NAMES:
            found[group][name] = int(value)
    return {group: AdmissionTotals(**totals) for group, totals in sorted(found.items())}
