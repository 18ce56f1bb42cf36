from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.meta_index import Bench
from tests.support.valkey_cluster import ValkeyCluster, empty_cluster, shared_cluster

__all__ = ["empty_cluster", "shared_cluster"]


@pytest.fixture
def empty_valkey(empty_cluster: ValkeyCluster) -> ValkeyCluster:
    """What the tests of the folder above run on, here a Cluster."""
    return empty_cluster


@pytest_asyncio.fixture(params=["redis", "redis, 3 shards"])
async def bench(request, redis_connection, tmp_path) -> AsyncIterator[Bench]:
    made = Bench(request.param, tmp_path, redis_connection, [])
    yield made
    await made.close()
