from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from kvcm_platform.index import registry
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.meta_index.interface import MetaIndex
from tests.support.meta_index import BACKENDS, Bench


@pytest_asyncio.fixture
async def redis_connection(empty_valkey) -> AsyncIterator[Connection]:
    client = empty_valkey.client()
    registry.ensure_functions(client)
    client.close()
    connection = connection_to(empty_valkey.url)
    await connection.connect()
    yield connection
    await connection.close()


@pytest_asyncio.fixture(params=BACKENDS)
async def bench(request, redis_connection, tmp_path) -> AsyncIterator[Bench]:
    made = Bench(request.param, tmp_path, redis_connection, [])
    yield made
    await made.close()


@pytest_asyncio.fixture
async def index(bench) -> MetaIndex:
    return await bench.open()
