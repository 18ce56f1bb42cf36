from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis

from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage
from tests.support.local_client import local_client
from tests.support.valkey import ValkeyServer

SPREAD_MODULES = {
    *(
        "test_copies",
        "test_queries",
        "test_writes",
        "test_removal",
        "test_races",
        "test_programs",
        "test_search_cache",
    ),
    *("test_clearing", "test_marks", "test_orphans", "test_touched_files"),
    *("test_evicting", "test_reclaim", "test_reclaim_preview"),
    *("test_gone", "test_trim_counts", "test_reclaim_troubles", "test_reclaim_scopes"),
    *("test_reclaim_programs", "test_reclaim_takeovers"),
    *("test_pool_writes", "test_pool_recount"),
}
"""What holds for one shard holds for several; tests that look into its keys are marked `one_shard`."""
SPREAD_ONLY_MODULES = {"test_same_when_spread"}
LOCAL_MODULES = SPREAD_MODULES | {
    *("test_crashes", "test_locations", "test_fairness"),
    *("test_pool_allocator", "test_values", "test_value_programs", "test_at_once", "test_registration"),
}
"""What holds for the index in Redis holds for one in this process, but for tests marked `redis_only`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" not in metafunc.fixturenames:
        return
    module = metafunc.module.__name__.rpartition(".")[2]
    marked = metafunc.definition.get_closest_marker
    places = [("redis", 3 if module in SPREAD_ONLY_MODULES else 1)]
    if module in SPREAD_MODULES and marked("one_shard") is None:
        places.append(("redis", 3))
    if module in LOCAL_MODULES and marked("redis_only") is None:
        places += [("local", 1), ("rocksdb", 1)]
    if "shards" in metafunc.fixturenames:
        names = [f"shards{shards}" if kind == "redis" else kind for kind, shards in places]
        metafunc.parametrize(("backend", "shards"), places, ids=names)
    else:
        metafunc.parametrize("backend", dict(places))


@pytest_asyncio.fixture
async def client(empty_valkey: ValkeyServer, tmp_path, backend: str) -> AsyncIterator[redis.Redis]:
    if backend == "redis":
        made = empty_valkey.client()
        yield made
        made.close()
    else:
        async with local_client(backend, tmp_path / "index", empty_valkey.socket) as made:
            yield made


@pytest_asyncio.fixture
async def plane(
    empty_valkey: ValkeyServer, client: redis.Redis, tmp_path, shards: int
) -> AsyncIterator[DataPlane]:
    """One nfs storage under the test's folder, group `default` without limits, instance `model-a`."""
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    entries = (storage(tmp_path / "nfs"), group(), instance(shards=shards))
    async with data_plane(empty_valkey.url, client, *entries) as built:
        yield built
