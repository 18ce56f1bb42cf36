"""What is taken of memory pools against what refers to it (index/pool_recount.py)."""

from __future__ import annotations

import pytest_asyncio

from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace
from kvcm_platform.index.pool_recount import SegmentCount, recount_pools
from kvcm_platform.index.pools import give_back
from kvcm_platform.storage import registry as storage_types
from tests.support.data_plane import DataPlane, found, group, instance
from tests.support.evictions import evict_all
from tests.support.pools import LEDGER_KIND, SegmentCalls, figures, pool

KEYS = list(range(1, 601))
SIZE = 1 << 20


@pytest_asyncio.fixture
async def pools_first(plane: DataPlane, shards: int, monkeypatch) -> DataPlane:
    monkeypatch.setitem(storage_types.KINDS, StorageType.TAIR_MEMPOOL, LEDGER_KIND)
    specs = [("tp0", SIZE), ("tp1", 5000)]
    plane.publish(2, pool(), group(storage_candidates=("pool_01",)), instance(specs=specs, shards=shards))
    await plane.mirror.refresh()
    return plane


async def recount(plane: DataPlane, *, repair: bool = False) -> SegmentCount:
    session = await plane.session()
    storages = list(session.registry.storages.values())
    (count,) = await recount_pools(plane.index, storages, session.all_instances, repair=repair)
    return count


def range_ids(wires: list[bytes]) -> list[int]:
    return [int(parse_uri(uri).params["range_id"]) for wire in wires for _, uri in found(wire).specs]


def taker(plane: DataPlane) -> SegmentCalls:
    """Somebody who takes memory of the segment as a Start does."""
    generation = plane.index.connection.generation_of(keyspace.storage(101))
    return SegmentCalls(plane.client, 101, generation, 256)


async def test_what_an_instance_took_that_was_registered_meanwhile_is_not_leaked(pools_first):
    plane = pools_first
    session = await plane.session()
    plane.publish(3, instance("model-b", 0xDEF, specs=[("tp0", SIZE)]))
    await plane.write(KEYS[:100], "model-b")
    await plane.index.pools.flush()
    storages = list(session.registry.storages.values())
    (count,) = await recount_pools(plane.index, storages, session.all_instances, repair=True)
    assert (count.taken, count.leaked) == (100, [])
    assert figures(plane.client).ranges == 100


async def test_what_was_given_back_meanwhile_is_not_leaked(pools_first):
    plane = pools_first
    await plane.write(KEYS[:100])
    await plane.index.pools.flush()
    session = await plane.session()

    async def read_instances():
        # Asked between the look at what is taken and the look at what refers to it.
        await plane.service.remove_cache("model-a", Blocks(KEYS[:60], ()), None)
        plane.make_due()
        await plane.duties()
        return await session.all_instances()

    storages = list(session.registry.storages.values())
    (count,) = await recount_pools(plane.index, storages, read_instances, repair=False)
    assert (count.taken, count.leaked) == (200, [])
    assert figures(plane.client).ranges == 80


async def test_nothing_is_amiss_in_any_state_of_a_block(pools_first):
    plane = pools_first
    await plane.write(KEYS[:100])
    await plane.write(KEYS[100:200])
    writing = await plane.start(KEYS[200:300])
    failed = await plane.start(KEYS[300:400])
    await plane.finish(failed, 50)
    await plane.service.remove_cache("model-a", Blocks(KEYS[:50], ()), None)
    count = await recount(plane)
    assert (count.taken, count.referred, count.has_drift) == (800, 800, False)
    await plane.duties()  # first passes
    await plane.finish(writing, 100)
    await plane.service.trim_cache("model-a", 2, 0, 0)
    await plane.duties()  # orphans
    count = await recount(plane)
    assert (count.taken, count.has_drift) == (figures(plane.client).ranges, False)
    assert count.taken > 0


async def test_memory_of_evicted_blocks_is_theirs_until_it_is_given_back(pools_first):
    plane = pools_first
    await plane.write(KEYS[:100])
    await evict_all(plane)
    count = await recount(plane)
    assert (count.taken, count.referred, count.has_drift) == (200, 200, False)
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 100
    # Nobody writes there any more: no second pass holds their memory back.
    assert (figures(plane.client).ranges, (await recount(plane)).has_drift) == (0, False)


async def test_leaked_ranges_are_found_and_given_back(pools_first):
    plane = pools_first
    await plane.write(KEYS[:100])
    taker(plane).take([(SIZE, 7), (5000, 3)], lease="a" * 32 + "|2748:0|0")
    assert not (await recount(plane)).has_drift  # a lease holds them
    plane.client.delete(keyspace.pool_leases(keyspace.storage(101)))
    count = await recount(plane)
    assert (count.taken, count.referred, len(count.leaked), count.missing) == (210, 200, 10, [])
    assert len((await recount(plane, repair=True)).leaked) == 10
    count = await recount(plane)
    assert (count.taken, count.has_drift) == (200, False)


async def test_forgotten_ranges_are_taken_again(pools_first):
    plane = pools_first
    started = await plane.write(KEYS[:100])
    await give_back(plane.index, 101, range_ids(started.locations[:30]))
    assert len((await recount(plane, repair=True)).missing) == 60
    count = await recount(plane)
    assert (count.taken, count.referred, count.has_drift) == (200, 200, False)
    assert len(await plane.match(KEYS[:100])) == 100


async def test_a_block_whose_memory_another_has_is_removed(pools_first):
    plane = pools_first
    started = await plane.write(KEYS[:100])
    await give_back(plane.index, 101, range_ids(started.locations[90:]))
    await plane.write(KEYS[100:105])
    await recount(plane, repair=True)
    for _ in range(2):
        plane.make_due()
        await plane.duties()
    served = [one.uri != "" for one in await plane.match(KEYS[:105], 1)]
    assert sum(served[:90]) == 90
    assert sum(served[90:100]) == 5
    assert sum(served[100:]) == 5
    count = await recount(plane)
    assert (count.taken, count.referred, count.has_drift) == (200, 200, False)
    assert not (await plane.recount()).has_drift
