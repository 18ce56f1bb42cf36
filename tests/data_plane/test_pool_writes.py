"""Writes to memory pools: placement, sessions, deletion and what a crash leaves (DESIGN 4.4, 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
import pytest_asyncio

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.pool_layout import SLAB_BYTES, pool_range, slot_class
from kvcm_platform.core.reclaim.marks import Scope, Subject
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks, Limits
from kvcm_platform.core.writes import StartedWrite
from kvcm_platform.duties.run import duties_run
from kvcm_platform.index import keyspace, pools, sweeps, tickets, waking
from kvcm_platform.index.connection import IndexUnavailable
from kvcm_platform.index.shards import shards_of
from kvcm_platform.storage import registry as storage_types
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, value_instance
from tests.support.pools import LEDGER_KIND, check_apart, figures, leases, pool, segment

KEYS = list(range(1, 701))
FEW = KEYS[:4]
SIZE = 1 << 20
SPECS = [("tp0", SIZE)]


@pytest.fixture(autouse=True)
def pool_without_nodes(monkeypatch) -> None:
    monkeypatch.setitem(storage_types.KINDS, StorageType.TAIR_MEMPOOL, LEDGER_KIND)


@pytest_asyncio.fixture
async def pools_first(plane: DataPlane, shards: int) -> DataPlane:
    """The plane with a pool of one segment before the nfs storage; blocks of 1 MiB."""
    plane.publish(
        2,
        pool(),
        group(storage_candidates=("pool_01", "nfs_01")),
        instance(specs=SPECS, shards=shards),
    )
    await plane.mirror.refresh()
    return plane


async def change(plane: DataPlane, *entries) -> None:
    plane.publish(plane.mirror.current.version + 1, *entries)
    await plane.mirror.refresh()


def uris(started: StartedWrite) -> list[str]:
    return [uri for wire in started.locations for _, uri in found(wire).specs]


def kept(plane: DataPlane, number: int = 101) -> int:
    """Ranges taken."""
    return figures(plane.client, number).ranges


def make_leases_due(plane: DataPlane, number: int = 101) -> None:
    name = keyspace.pool_lease_deadlines(keyspace.storage(number))
    for lease in leases(plane.client, number):
        plane.client.zadd(name, {lease: 1})


async def settle(plane: DataPlane, rounds: int = 3) -> None:
    for _ in range(rounds):
        plane.make_due()
        await plane.duties()


async def test_a_start_takes_memory_and_a_removal_gives_it_back(pools_first):
    plane = pools_first
    started = await plane.start(KEYS)
    check_apart(uris(started))
    location = found(started.locations[0])
    assert location.type == 3
    uri = parse_uri(location.uri)
    assert (uri.scheme, uri.storage, uri.size) == ("pace", "pool_01", SIZE)
    assert list(uri.params) == ["media_type", "node_id", "range_id", "size"]
    assert (pool_range(uri).node_id, kept(plane)) == ("node-1", len(KEYS))
    await plane.finish(started, len(KEYS))
    assert [one.uri for one in await plane.match(KEYS)] == uris(started)
    await plane.service.remove_cache("model-a", Blocks(KEYS, ()), None)
    await settle(plane)
    assert kept(plane) == 0
    assert (await plane.recount()).used == 0


async def test_leases_end_with_the_start(pools_first):
    plane = pools_first
    await plane.start(KEYS)
    assert leases(plane.client)
    await plane.index.pools.flush()
    assert leases(plane.client) == []
    assert not plane.client.hlen(keyspace.pool_leases(keyspace.storage(101)))


async def test_parts_of_several_sizes(plane, shards):
    specs = [("full", 5 << 20), ("state", 4097), ("more", 5 << 20)]
    groups = [("attention", ["full"]), ("recurrent", ["state", "more"])]
    entry = instance(specs=specs, groups=groups, shards=shards)
    await change(plane, pool(segment(slabs=1024)), group(storage_candidates=("pool_01",)), entry)
    names = [["attention", "recurrent"][key % 2] for key in KEYS]
    started = await plane.start(KEYS, groups=names)
    check_apart(uris(started))
    sizes = dict(specs)
    for wire in started.locations:
        assert all(pool_range(parse_uri(uri)).size == sizes[name] for name, uri in found(wire).specs)
    whole = await plane.start([key + 10_000 for key in KEYS[:300]])
    check_apart([*uris(started), *uris(whole)])
    await plane.finish(started, 0)
    await plane.finish(whole, 300)
    assert kept(plane) == len(uris(started)) + len(uris(whole))
    await settle(plane)
    assert kept(plane) == len(uris(whole))


async def test_a_failed_write_keeps_its_memory_until_the_second_pass(pools_first):
    plane = pools_first
    started = await plane.start(FEW)
    await plane.finish(started, [True, False, False, True])
    await plane.duties()
    assert kept(plane) == 4
    plane.make_due()
    await plane.duties()
    assert kept(plane) == 2


async def test_the_quarantine_is_what_is_set(plane, shards, monkeypatch):
    await change(plane, pool(), group(storage_candidates=("pool_01",)), instance(specs=SPECS, shards=shards))
    await plane.finish(await plane.start(FEW[:1]), 0)
    before = plane.index.now_ms()
    await duties_run(await plane.session(), quarantine_ms=7_200_000)
    due = [
        score
        for name in plane.client.scan_iter(match="{*:*}:d")
        for _, score in plane.client.zrange(name, 0, -1, withscores=True)
    ]
    assert len(due) == 1
    assert 7_200_000 <= due[0] - before < 7_260_000


async def test_the_emptiest_segment_is_tried_first(plane, shards):
    parts = (
        segment(slabs=16),
        segment("node-2", 102, slabs=64),
        segment("node-3", 103, slabs=99, is_available=False),
    )
    entry = instance(specs=SPECS, shards=shards)
    await change(plane, pool(*parts), group(storage_candidates=("pool_01",)), entry)
    for number in range(3):
        await plane.write([number * 1000 + key for key in KEYS[:300]])
    assert [kept(plane, number) for number in (101, 102, 103)] == [0, 900, 0]
    # More than the large one has left, but not more than the small one.
    await plane.write([50_000 + key for key in KEYS[:200]])
    assert [kept(plane, number) for number in (101, 102, 103)] == [200, 900, 0]


async def test_a_full_pool_is_passed_over(pools_first):
    plane = pools_first
    await change(plane, pool(segment(slabs=2)))
    started = await plane.start(KEYS)
    assert {parse_uri(uri).scheme for uri in uris(started)} == {"file"}
    assert kept(plane) == 0
    assert await waking.refusals(plane.index.connection) == {}, "another took it: no block has to go for that"
    await plane.finish(started, len(KEYS))
    small = await plane.start([9001])
    assert parse_uri(uris(small)[0]).scheme == "pace"
    await plane.finish(small, 1)
    assert not (await plane.recount()).has_drift
    assert (await plane.recount()).reserved == 0


async def test_memory_that_cannot_be_asked_for_is_passed_over(pools_first, monkeypatch):
    """In a Cluster the server of a segment may be away while those of the blocks are there."""
    plane = pools_first
    await change(plane, pool(segment(), segment("node-2", 102)))
    original = plane.index.function

    async def away(name, base, *args):
        if base == keyspace.storage(101):
            raise IndexUnavailable("the server is away")
        return await original(name, base, *args)

    with monkeypatch.context() as patched:
        patched.setattr(plane.index, "function", away)
        started = await plane.start(KEYS)
        assert {pool_range(parse_uri(uri)).node_id for uri in uris(started)} == {"node-2"}
        await change(plane, pool())
        files = await plane.start([key + 5000 for key in FEW])
        assert {parse_uri(uri).scheme for uri in uris(files)} == {"file"}
    assert not (await plane.recount()).has_drift


async def test_when_nothing_has_room_each_reason_is_named(pools_first):
    plane = pools_first
    parts = segment(slabs=2), segment("node-2", 102, slabs=1)
    await change(plane, pool(*parts), group(storage_candidates=("pool_01",)))
    with pytest.raises(DomainError) as caught:
        await plane.start(KEYS)
    assert caught.value.code is Code.IO_ERROR
    assert "pool_01: node-1 has no memory left for 734003200 bytes in 700 blocks" in caught.value.message
    assert "(1 of 1 slabs are free)" in caught.value.message
    assert await waking.refusals(plane.index.connection) == {}, "more than the whole pool"
    counted = plane.facts._instances["model-a"]
    assert (counted["write_refused"], counted["quota_refused"]) == (1, 0)
    counts = await plane.recount()
    assert (counts.used, counts.reserved, kept(plane)) == (0, 0, 0)


async def test_a_full_pool_tells_how_much_was_wanted(pools_first):
    plane = pools_first
    await change(plane, pool(segment(slabs=1)), group(storage_candidates=("pool_01",)))
    await plane.write([1])
    with pytest.raises(DomainError) as caught:
        await plane.start(range(100, 100 + SLAB_BYTES // SIZE))
    assert caught.value.code is Code.IO_ERROR
    assert plane.client.xlen(keyspace.WAKE) > 0
    known = await waking.refusals(plane.index.connection)
    assert known == {"default": {Subject(Scope.STORAGE, "pool_01"): SLAB_BYTES}}


async def test_no_node_and_a_block_that_is_too_large(plane, shards):
    await change(
        plane,
        pool(segment(is_available=False)),
        group(storage_candidates=("pool_01",)),
        instance(specs=[("tp0", 2 << 30)], shards=shards),
    )
    with pytest.raises(DomainError, match="pool_01: a block's part must be between 1 and"):
        await plane.start(FEW)
    await change(plane, instance("other", 0xDEF, specs=SPECS, shards=shards))
    with pytest.raises(DomainError, match="pool_01: none of its nodes is there"):
        await plane.start(FEW, "other")


async def test_quota_and_room_together(pools_first):
    plane = pools_first
    quota = Quota(1 << 40, {StorageType.NFS: 10})
    await change(plane, pool(segment(slabs=2)), group(storage_candidates=("pool_01", "nfs_01"), quota=quota))
    with pytest.raises(DomainError) as caught:
        await plane.start(KEYS)
    assert caught.value.code is Code.CAPACITY
    assert "type quota" in caught.value.message
    assert "pool_01: node-1 has no memory left" in caught.value.message


@pytest.mark.parametrize("limit", ["sessions", "keys"])
async def test_a_refused_start_gives_its_memory_back_at_once(pools_first, empty_valkey, limit):
    plane = pools_first
    if limit == "keys":
        indexer = plane.mirror.current.groups["default"].meta_indexer
        tight = group(
            storage_candidates=("pool_01",), meta_indexer=replace(indexer, max_key_count=len(KEYS) - 1)
        )
        await change(plane, tight)
    limits = Limits(max_sessions=1) if limit == "sessions" else None
    async with data_plane(empty_valkey.url, plane.client, limits=limits) as tight_plane:
        if limit == "sessions":
            await tight_plane.start([9001])
        taken = kept(plane)
        with pytest.raises(DomainError):
            await tight_plane.start(KEYS)
        assert kept(plane) == taken
        await tight_plane.index.pools.flush()
        assert leases(plane.client) == []


async def expire_all(plane: DataPlane) -> None:
    """All sessions fail, and reservations are stale."""
    entry = plane.mirror.current.instances["model-a"]
    storages = list(plane.mirror.current.storages.values())
    await tickets.sweep(plane.index, entry, storages, 100, is_forced=True)
    for shard in shards_of(entry):
        await sweeps.sweep_sessions(plane.index, sweeps.SweptShard(shard, entry), storages, is_forced=True)
    deadlines = keyspace.group_reservation_deadlines(keyspace.group(1))
    for reserved in plane.client.zrange(deadlines, 0, -1):
        plane.client.zadd(deadlines, {reserved: 1})


async def test_expired_sessions_give_their_memory_back(pools_first):
    plane = pools_first
    await plane.start(KEYS)
    await expire_all(plane)
    await settle(plane)
    assert kept(plane) == 0
    assert not (await plane.recount()).has_drift


class Died(Exception):
    """Stands for kill -9."""


def die_before(plane: DataPlane, monkeypatch, name: str, *, after: int = 0) -> None:
    """The process ends before it calls a function for the (`after` + 1)th time."""
    original, made = plane.index.function, 0

    async def dying(called, *args):
        nonlocal made
        if called == name:
            made += 1
            if made > after:
                raise Died
        return await original(called, *args)

    monkeypatch.setattr(plane.index, "function", dying)


@pytest.mark.parametrize(
    ("function", "after"), [("kvcm_write", 0), ("kvcm_write", 1), ("kvcm_pool_take", 1), ("kvcm_write", 2)]
)
async def test_a_start_that_dies_leaves_no_memory_taken(pools_first, monkeypatch, function, after):
    plane = pools_first
    monkeypatch.setattr(plane.index.recency, "touch", lambda *args: None)
    with monkeypatch.context() as patched:
        die_before(plane, patched, function, after=after)
        with suppress(Died):
            await plane.start(KEYS)
    await expire_all(plane)
    make_leases_due(plane)
    await plane.duties()
    await settle(plane)
    assert (kept(plane), leases(plane.client)) == (0, [])
    counts = await plane.recount()
    assert (counts.has_drift, counts.used, counts.reserved) == (False, 0, 0)


async def test_a_lease_that_nobody_settled_takes_no_memory_from_blocks(pools_first):
    """Its process died right after the Start: blocks are being written, served, deleted, or gone."""
    plane = pools_first
    started = await plane.start(KEYS)
    plane.index.pools._over.clear()  # the process is gone, and what it meant to settle
    make_leases_due(plane)
    await plane.duties()
    assert (kept(plane), leases(plane.client)) == (len(KEYS), [])
    await plane.finish(started, len(KEYS))
    second = await plane.write([key + 5000 for key in KEYS])
    plane.index.pools._over.clear()
    make_leases_due(plane)
    await plane.duties()
    assert (kept(plane), leases(plane.client)) == (2 * len(KEYS), [])
    check_apart([*uris(started), *uris(second)])


async def test_memory_of_orphans_stays_taken(pools_first):
    plane = pools_first
    await plane.write(FEW)
    plane.index.pools._over.clear()
    await plane.service.trim_cache("model-a", 2, 0, 0)
    await plane.duties()
    make_leases_due(plane)
    await plane.duties()
    assert (kept(plane), leases(plane.client)) == (4, [])
    assert plane.client.hlen(keyspace.orphans(keyspace.storage(101))) == 4


async def test_a_lost_segment_takes_its_blocks_along(pools_first):
    plane = pools_first
    await plane.write(KEYS)
    open_still = await plane.start([key + 5000 for key in FEW])
    lost = pool(segment("node-1", 102, segment_id="node-1-2"), lost_numbers=(101,))
    await change(plane, lost)
    assert await plane.match(KEYS) == []
    await settle(plane)
    assert plane.client.hget(keyspace.storage(101), "p:gone") == b"1"
    await plane.finish(open_still, 4)
    assert await plane.match([key + 5000 for key in FEW]) == []
    await settle(plane)
    counts = await plane.recount()
    assert (counts.has_drift, counts.used) == (False, 0)
    again = await plane.write(KEYS)
    assert kept(plane, 102) == len(KEYS)
    assert len(await plane.match(KEYS)) == len(again.locations)


async def test_values_on_a_pool_are_told_apart_by_their_keys(plane, shards):
    entry = value_instance(shards=shards)
    await change(plane, pool(), group(storage_candidates=("pool_01",)), entry)
    names = [f"key-{number}" for number in range(20)]
    put = await plane.service.put_start("values", names, [], 30)
    places = [found(wire).uri for wire in put.locations]
    check_apart(places)
    assert list(parse_uri(places[0]).params) == ["key", "media_type", "node_id", "range_id", "size"]
    await plane.service.put_finish_listed("values", put.session_id, places[:15])
    wires, hits = await plane.service.get_values("values", names)
    assert hits == [True] * 15 + [False] * 5
    assert [found(wire).uri for wire in wires[:15]] == places[:15]
    await plane.service.remove_values("values", names)
    await settle(plane)
    assert kept(plane) == 0


async def test_replicas_on_pool_and_files(pools_first):
    plane = pools_first
    await plane.write(FEW)
    second = await plane.write(FEW, replicas=2)
    assert {parse_uri(uri).scheme for uri in uris(second)} == {"file"}
    third = await plane.start(FEW, replicas=2)
    assert third.locations == []


def test_the_ranges_of_a_request_are_cut_where_their_classes_change():
    small, large = slot_class(4096), slot_class(SLAB_BYTES)
    kinds: Sequence = [(small, 700), (small, 100), (large, 300)]
    assert pools._cut(kinds, 0, 512) == [(small, 512)]
    assert pools._cut(kinds, 512, 1024) == [(small, 288), (large, 224)]
    assert pools._cut(kinds, 1024, 1100) == [(large, 76)]


@pytest_asyncio.fixture
async def second(plane, empty_valkey) -> AsyncIterator[DataPlane]:
    async with data_plane(empty_valkey.url, plane.client) as built:
        yield built


async def test_two_processes_take_different_memory(pools_first, second):
    both = [pools_first, second]
    made = []
    for number in range(6):
        made.append(await both[number % 2].start([number * 1000 + key for key in KEYS[:100]]))
    check_apart([uri for started in made for uri in uris(started)])
    assert kept(pools_first) == 600
