from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from kvcm_platform.storage import files
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage
from tests.support.valkey import ValkeyServer


@pytest_asyncio.fixture
async def plane(empty_valkey: ValkeyServer, tmp_path) -> AsyncIterator[DataPlane]:
    """One nfs storage under the test's folder, group `default` without limits, instance `model-a`."""
    client = empty_valkey.client()
    (tmp_path / "nfs").mkdir()
    files.mark(str(tmp_path / "nfs"))
    entries = (storage(tmp_path / "nfs"), group(), instance())
    async with data_plane(empty_valkey.url, client, *entries) as built:
        yield built
    client.close()
