"""What an instance uses at this moment, as its shards say, and what lies on the disk of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import redis

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.index import codec, keyspace
from kvcm_platform.index.shards import shards_of
from kvcm_platform.index.stats import parse_usage


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes. `live` blocks are written or served; what is pending waits for its deletion."""

    live: int
    pending: int

    @property
    def total(self) -> int:
        return self.live + self.pending


def used(client: redis.Redis, entry: InstanceEntry) -> Used:
    """Each shard's own truth, not what was pushed to its group."""
    live = pending = 0
    for shard in shards_of(entry):
        for (_, state), (size, _) in parse_usage(client.hgetall(shard.base)).items():
            if state == "p":
                pending += size
            else:
                live += size
    return Used(live, pending)


def live_slots(client: redis.Redis, entry: InstanceEntry) -> set[tuple[str, int]]:
    """(file, offset) of everything that the records of an instance's blocks name."""
    found = set()
    for shard in shards_of(entry):
        for record in client.hvals(keyspace.blocks(shard.base)):
            for location in codec.locations(record):
                for _, text in location.specs():
                    uri = parse_uri(text)
                    found.add((uri.path, uri.offset))
    return found


def slots_with_data(root: Path, slot_bytes: int) -> set[tuple[str, int]]:
    """(file, offset) of every slot below `root` of which the file system keeps a page."""
    found = set()
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            descriptor = os.open(path, os.O_RDONLY)
            try:
                found |= {(path, at) for at in _data(descriptor, slot_bytes)}
            finally:
                os.close(descriptor)
    return found


def _data(descriptor: int, slot_bytes: int) -> set[int]:
    size, at, found = os.fstat(descriptor).st_size, 0, set()
    while at < size:
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:  # only a hole is left
            break
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        found |= {slot * slot_bytes for slot in range(begin // slot_bytes, -(-end // slot_bytes))}
        at = end
    return found
