"""A server that is short of memory and drops keys: they are misses, never wrong, and all comes right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import RedisError

from kvcm_platform.core.errors import DomainError
from kvcm_platform.index import keyspace, registry
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage
from tests.support.valkey import ValkeyServer, valkey_server

INSTANCES = {f"model-{number:x}": number for number in range(0xA0, 0xA8)}
KEYS = list(range(1, 401))


@pytest.fixture
def short() -> Iterator[ValkeyServer]:
    with valkey_server() as server:
        yield server


def evicted(client: redis.Redis) -> int:
    return int(client.info("stats")["evicted_keys"])


async def write(plane: DataPlane, name: str, keys: list[int]) -> None:
    """As an engine that goes on whatever happens: an index that lost its limits refuses."""
    try:
        await plane.write(keys, name)
    except (DomainError, RedisError):
        return


async def test_what_a_server_short_of_memory_drops_comes_right(short, tmp_path):
    (tmp_path / "nfs").mkdir()
    marker.mark(str(tmp_path / "nfs"))
    entries = [storage(tmp_path / "nfs"), group(), *(instance(name, n) for name, n in INSTANCES.items())]
    client = short.client()
    async with data_plane(short.url, client, *entries) as plane:
        uris: dict[str, list[str]] = {}
        for name in INSTANCES:
            await plane.write(KEYS, name)
            uris[name] = [one.uri for one in await plane.match(KEYS, instance_id=name)]
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) - 20_000)
        for at in range(1000, 3000, 100):
            for name in INSTANCES:
                await write(plane, name, list(range(at, at + 100)))
                served = [one.uri for one in await plane.match(KEYS, instance_id=name)]
                assert served == uris[name][: len(served)], "nothing wrong is served"
            if evicted(client) > 12:
                break
        assert evicted(client) > 0
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
        registry.publish(client, version=9, changed=entries)  # as control does
        for _ in range(12):
            client.delete(keyspace.DAMAGE_LOOKED)
            assert (await plane.duties()).failures == 0
        assert not (await plane.recount()).has_drift
        for name, number in INSTANCES.items():
            base = keyspace.instance(number, 0)
            listed = b"".join(client.hvals(keyspace.runs(base)))
            blocks = client.hkeys(keyspace.blocks(base))
            assert sorted(listed[at : at + 8] for at in range(0, len(listed), 8)) == sorted(blocks)
            await plane.write(KEYS, name)
            assert len(await plane.match(KEYS, instance_id=name)) == len(KEYS)
        assert not (await plane.recount()).has_drift
    client.close()
