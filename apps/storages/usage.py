"""What lies on each storage, summed over all instances in the index."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import orjson
import redis

from apps.storages.models import Storage
from kvcm_platform.index import keyspace
from kvcm_platform.index.stats import StorageUsage, parse_usage
from kvcm_platform.index.storage_refs import number_of

UsageByNumber = dict[int, StorageUsage]


def usage_by_storage(client: redis.Redis) -> UsageByNumber:
    """Usage by storage number, removed instances with data left included. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for base in _shards(client):
        pipeline.hgetall(base)
    totals: UsageByNumber = {}
    for raw in pipeline.execute():
        for (ref, state), (size, count) in parse_usage(raw).items():
            number, part = number_of(ref), StorageUsage.of_state(state, size, count)
            totals[number] = totals.get(number, StorageUsage()) + part
    return totals


def _shards(client: redis.Redis) -> Iterator[str]:
    """Base keys of all shards. Of thousands of entries two members are read, so no entry is made."""
    for field, value in client.hgetall(keyspace.REGISTRY).items():
        text = value.partition(b" ")[2]
        if field.startswith(b"instance:") and text:
            yield from _shards_of(text)
    for text in client.hvals(keyspace.LEAVING):
        yield from _shards_of(text)


def _shards_of(text: bytes) -> Iterator[str]:
    entry = orjson.loads(text)
    return (keyspace.instance(entry["number"], shard) for shard in range(entry["shards"]))


def usage_of(storage: Storage, usages: UsageByNumber) -> StorageUsage:
    """What lies on a storage and its segments, lost ones included."""
    total = StorageUsage()
    for number in storage.entry().numbers:
        total += usages.get(number, StorageUsage())
    return total


@dataclass(frozen=True, slots=True)
class ListedOrphans:
    """Blocks whose records alone were dropped: their bytes stay on the storage and count for no group."""

    blocks: int = 0
    used_bytes: int = 0


def orphans_by_storage(client: redis.Redis, storages: Sequence[Storage]) -> dict[int, ListedOrphans]:
    """What is on the list of orphans of each storage, by its row's key. Raises redis.RedisError."""
    numbers = [(storage.pk, number) for storage in storages for number in storage.entry().numbers]
    pipeline = client.pipeline(transaction=False)
    for _, number in numbers:
        pipeline.hmget(keyspace.storage(number), "on", "ob")
    totals: dict[int, ListedOrphans] = {}
    for (key, _), (blocks, size) in zip(numbers, pipeline.execute(), strict=True):
        had = totals.get(key, ListedOrphans())
        totals[key] = ListedOrphans(had.blocks + int(blocks or 0), had.used_bytes + int(size or 0))
    return totals


def holds_any(usage: StorageUsage) -> bool:
    """Whether the index has anything of it left, be it only a deletion that is due."""
    return bool(usage.used_bytes or usage.pending_bytes or usage.blocks)


class RecentUsage:
    """The usage as it was at most `seconds` ago, for pages: however many look, the index is asked once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._known: tuple[float, redis.Redis, UsageByNumber] | None = None

    def get(self, client: redis.Redis) -> UsageByNumber:
        """Raises redis.RedisError."""
        with self._lock:
            known = self._known
            if known is None or known[1] is not client or time.monotonic() - known[0] > self._seconds:
                known = self._known = (time.monotonic(), client, usage_by_storage(client))
            return known[2]
