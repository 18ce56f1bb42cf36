"""How an instance's blocks are spread over its shards, each in a hash tag of its own (DESIGN 4.1).

The number of shards is fixed when the instance is created. A run lies within one shard; its name
tells which (`of_run`), so that nobody needs the keys of a run to find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.registry import MAX_SHARDS, InstanceEntry

from . import keyspace

ORDINAL_BITS = 12
"""Bits of a run's ordinal that count the runs of one Start in one shard; the shard is above them."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HIGH = np.uint64(32)

if MAX_SHARDS << ORDINAL_BITS > 1 << 16:
    raise AssertionError("a run's ordinal has two bytes")


@dataclass(frozen=True, slots=True)
class ShardRef:
    instance_number: int
    shard: int
    group_number: int

    @property
    def base(self) -> str:
        return keyspace.instance(self.instance_number, self.shard)

    @property
    def name(self) -> str:
        """The shard's field in its group's keys."""
        return f"{self.instance_number}:{self.shard}"


def shards_of(instance: InstanceEntry) -> list[ShardRef]:
    return [ShardRef(instance.number, n, instance.group_number) for n in range(instance.shards)]


def of_keys(keys: Sequence[int], shards: int) -> np.ndarray:
    """Shard number of each key: the high half of a multiplicative hash, so that key patterns spread."""
    numbers = np.asarray(keys, dtype=np.int64).astype(np.uint64)
    return ((numbers * _GOLDEN) >> _HIGH) % np.uint64(shards)


def by_shard(keys: Sequence[int], shards: int) -> dict[int, list[int]]:
    """Shard number -> indexes of its keys, in order; shards without keys are left out."""
    if shards == 1:
        return {0: list(range(len(keys)))} if len(keys) else {}
    numbers = of_keys(keys, shards)
    return {int(n): np.flatnonzero(numbers == n).tolist() for n in np.unique(numbers)}


def of_run(run: bytes) -> int:
    """Shard number of a run by its 10-byte name."""
    return run[8] >> (ORDINAL_BITS - 8)
