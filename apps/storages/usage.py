"""What lies on each storage, summed over all instances in the index."""

from __future__ import annotations

import redis

from kvcm_platform.index import keyspace, leaving
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import StorageUsage, storage_usages

UsageByNumber = dict[int, StorageUsage]


def usage_by_storage(client: redis.Redis) -> UsageByNumber:
    """Usage by storage number, removed instances with data left included. Raises redis.RedisError."""
    registered = index_registry.read(client).instances.values()
    removed = leaving.decode(client.hgetall(keyspace.LEAVING))
    return storage_usages(client, [*registered, *removed])
