from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kvcm_platform.storage import files
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage
from tests.support.valkey import ValkeyServer

SPREAD_MODULES = {"test_queries", "test_writes", "test_removal", "test_programs", "test_search_cache"}
"""What holds for one shard holds for several; tests that look into its keys are marked `one_shard`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shards" in metafunc.fixturenames:
        is_spread = metafunc.module.__name__.rpartition(".")[2] in SPREAD_MODULES
        is_spread &= metafunc.definition.get_closest_marker("one_shard") is None
        metafunc.parametrize("shards", [1, 3] if is_spread else [1], ids=lambda n: f"shards{n}")


@pytest_asyncio.fixture
async def plane(empty_valkey: ValkeyServer, tmp_path, shards: int) -> AsyncIterator[DataPlane]:
    """One nfs storage under the test's folder, group `default` without limits, instance `model-a`."""
    client = empty_valkey.client()
    (tmp_path / "nfs").mkdir()
    files.mark(str(tmp_path / "nfs"))
    entries = (storage(tmp_path / "nfs"), group(), instance(shards=shards))
    async with data_plane(empty_valkey.url, client, *entries) as built:
        yield built
    client.close()
