"""The search for orphans on storages without folders: a Mooncake store, and memory of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import object_name, parse_uri
from kvcm_platform.duties.orphan_order import OrphanFigures, OrphanOrder
from kvcm_platform.duties.orphans import OrphanSearch
from kvcm_platform.index.pool_recount import recount_pools
from kvcm_platform.storage.mooncake_clients import CLIENTS
from kvcm_platform.transfer import Transfers
from tests.support.data_plane import DataPlane, data_plane, found, group, instance
from tests.support.mempool import agent_host, pool_storage, pool_uri
from tests.support.mooncake import MooncakeMaster, running_mooncake
from tests.support.valkey import ValkeyServer

KEYS = list(range(1, 13))
SIZE = 4096


async def plane_with(valkey: ValkeyServer, storage: StorageEntry) -> AsyncIterator[DataPlane]:
    client = valkey.client()
    entries = (storage, group(storage_candidates=(storage.name,)), instance(specs=[("tp0", SIZE)]))
    async with data_plane(valkey.url, client, *entries) as built:
        yield built
    client.close()


async def write(plane: DataPlane, transfers: Transfers, keys: list[int], *, finish: bool = True) -> list[str]:
    started = await plane.start(keys)
    uris = [found(wire).uri for wire in started.locations]
    assert transfers.write_batch([(uri, b"\1" * SIZE) for uri in uris]) == [None] * len(uris)
    if finish:
        await plane.finish(started, len(keys))
    return uris


async def search(plane: DataPlane, name: str, *, is_dry: bool = False) -> OrphanFigures:
    session = await plane.session()
    order = OrphanOrder(session.registry.storages[name], f"installation/{name}", is_dry, -1)
    return await OrphanSearch(session, order).run()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path) as running:
        yield running
    CLIENTS.close()


@pytest_asyncio.fixture
async def moon(empty_valkey: ValkeyServer, master: MooncakeMaster) -> AsyncIterator[DataPlane]:
    async for plane in plane_with(empty_valkey, master.storage("moon")):
        yield plane


async def test_a_mooncake_store(moon: DataPlane, master: MooncakeMaster) -> None:
    with Transfers.from_entries([master.storage("moon")]) as transfers:
        kept = await write(moon, transfers, KEYS)
        kept += await write(moon, transfers, [100, 101], finish=False)
        orphan = f"mooncake://moon/?key=model-a/tp0/ff.zzzzzzz9&size={SIZE}"
        stranger = f"mooncake://moon/?key=somebody-elses&size={SIZE}"
        assert transfers.write_batch([(uri, b"\2" * SIZE) for uri in (orphan, stranger)]) == [None, None]
        before = master.object_keys()
        dry = await search(moon, "moon", is_dry=True)
        assert ([sample.name for sample in dry.samples], dry.foreign) == (["model-a/tp0/ff.zzzzzzz9"], 1)
        figures = await search(moon, "moon")
        assert (figures.deleted, figures.failed, figures.referred) == (1, 0, len(kept))
        # The first search left its name there.
        gone = before - master.object_keys()
        assert gone == {"model-a/tp0/ff.zzzzzzz9"}
        assert transfers.read_batch(kept) == [b"\1" * SIZE] * len(kept)


async def test_what_came_while_the_index_was_read_is_young(
    moon: DataPlane, master: MooncakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine starts and writes between the look at the index and the look at the store."""
    with Transfers.from_entries([master.storage("moon")]) as transfers:
        late: list[str] = []
        look = OrphanSearch._look

        async def slow(self: OrphanSearch, *args) -> None:
            late.extend(await write(moon, transfers, [500, 501]))
            await look(self, *args)

        monkeypatch.setattr(OrphanSearch, "_look", slow)
        figures = await search(moon, "moon")
        assert (figures.young, figures.deleted) == (2, 0)
        assert transfers.read_batch(late) == [b"\1" * SIZE] * 2


async def test_memory_of_agents(empty_valkey: ValkeyServer) -> None:
    with agent_host() as host:
        storage = pool_storage(host.start("a"), host.start("b"))
        async for plane in plane_with(empty_valkey, storage):
            with Transfers.from_entries([storage]) as transfers:
                kept = await write(plane, transfers, KEYS)
                lost = await write(plane, transfers, [100, 101, 102])
                # Their records go as if the index had forgotten them: the memory stays taken.
                for key in (100, 101, 102):
                    plane.client.hdel("{abc:0}:b", key.to_bytes(8))
                figures = await search(plane, "pool")
                assert (figures.deleted, figures.failed, figures.referred) == (3, 0, len(kept))
                assert sorted(sample.name for sample in figures.samples) == sorted(
                    object_name(parse_uri(uri)) for uri in lost
                )
                assert transfers.read_batch(kept) == [b"\1" * SIZE] * len(kept)
                session = await plane.session()
                counts = await recount_pools(plane.index, [storage], session.all_instances, repair=False)
                assert sum(count.taken for count in counts) == len(kept)
                assert not any(count.has_drift for count in counts)


def test_ranges_have_names_of_their_own() -> None:
    assert object_name(parse_uri(pool_uri(0, 64, 5, node_id="n"))) == "n:5"
