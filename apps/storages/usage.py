"""What lies on each storage, summed over all instances in the index."""

from __future__ import annotations

import redis

from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import StorageUsage, storage_usages

UsageByNumber = dict[int, StorageUsage]


def usage_by_storage(client: redis.Redis) -> UsageByNumber:
    """Usage by storage number. Raises redis.RedisError."""
    entries = list(index_registry.read(client).instances.values())
    return storage_usages(client, entries)
