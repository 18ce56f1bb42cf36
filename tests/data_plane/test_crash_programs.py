"""Random programs over several processes that die in the middle of their calls.

What cannot be known (did the dying call take effect?) is left open; everything else is held against a
naive model: no URI is issued twice, readers get only what was finished and not removed, what was
acknowledged stays, no two blocks have the same memory of a pool, and in the end not a byte is left on
the disk, in the usage or taken of the pool's memory.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.pool_layout import SLAB_BYTES
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace
from kvcm_platform.index.pool_recount import recount_pools
from kvcm_platform.transfer.pool import PoolTransfer
from tests.support.block_bytes import BlockBytes
from tests.support.data_plane import DataPlane, data_plane, found, group, instance
from tests.support.mempool import agent_host, pool_storage, spec_of
from tests.support.pools import check_apart, figures, leases

SHARDS = {"model-a": 1, "hybrid": 3}
NUMBERS = {"model-a": 0xABC, "hybrid": 0xDEF}
GROUPS = ("attention", "recurrent")
SPECS = {
    "model-a": ["tp0"],
    "hybrid": ["full", "state"],
    "attention": ["full"],
    "recurrent": ["state"],
}
SEGMENTS = {101: 1, 102: 3}
"""Slabs of the pool's segments: room for some of the programs' blocks, not for all."""
PROCESSES = 3
NEVER = 3600
"""Seconds after which a session would expire by itself: programs let time pass as they wish (pass_time)."""


class Died(Exception):
    """Stands for kill -9: nothing after this line runs."""


@dataclass
class Written:
    """One location that a Start placed."""

    instance_id: str
    key: int
    uris: frozenset[str]
    specs: frozenset[str]
    target: frozenset[str]
    """The specs that were asked for; some may have been there."""


@dataclass
class Open:
    instance_id: str
    started: object
    places: list[Written]


@dataclass
class Model:
    issued: set[str] = field(default_factory=set)
    owner: dict[str, Written] = field(default_factory=dict)
    sure: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """URIs that are served for certain."""
    removed: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)
    """URIs whose state a dying call left open."""
    open: list[Open] = field(default_factory=list)

    def places(self) -> Iterable[Written]:
        return self.owner.values()

    def needed(self) -> set[str]:
        """URIs whose places no other block may have."""
        writing = {uri for one in self.open for place in one.places for uri in place.uris}
        return (writing - self.removed).union(*self.sure.values())


class Program:
    def __init__(self, planes: list[DataPlane], seed: int, reconnect, block_bytes: BlockBytes) -> None:
        self.planes = planes
        self.bytes = block_bytes
        self.reconnect = reconnect
        self.random = random.Random(seed)
        self.model = Model()

    def plane(self) -> DataPlane:
        return self.random.choice(self.planes)

    def prompt(self) -> tuple[str, list[int]]:
        instance_id = self.random.choice(list(SHARDS))
        root, length = self.random.randrange(3), self.random.choice([1, 5, 40, 700])
        return instance_id, [root * 10_000 + depth for depth in range(1, length + 1)]

    async def die_in(self, call) -> bool:
        """Runs a call in a process that dies at one of its first changing calls; whether it did."""
        number = self.random.randrange(len(self.planes))
        plane, left = self.planes[number], self.random.randint(1, 6)
        is_after, original = self.random.random() < 0.5, plane.index.connection.call
        made = 0

        async def dying(*command, **options):
            nonlocal made
            if made >= left:
                raise Died
            if command[0] != "FCALL":
                return await original(*command, **options)
            made += 1
            if made < left:
                return await original(*command, **options)
            if is_after:
                await original(*command, **options)
            raise Died

        plane.index.connection.call = dying
        try:
            await call(plane)
        except Died:
            self.planes[number] = await self.reconnect()
            return True
        plane.index.connection.call = original
        return False

    def take(self, instance_id: str, keys: list[int], groups: list[str], started) -> None:
        mask = started.mask
        flags = mask if isinstance(mask, list) else [i < mask for i in range(len(keys))]
        missing = [i for i, is_there in enumerate(flags) if not is_there]
        places = []
        for i, wire in zip(missing, started.locations, strict=True):
            key, specs = keys[i], dict(found(wire).specs)
            uris = frozenset(specs.values())
            target = frozenset(SPECS[groups[i]] if groups else SPECS[instance_id])
            assert not uris & self.model.issued, "a URI was issued twice"
            self.model.issued |= uris
            place = Written(instance_id, key, uris, frozenset(specs), target)
            self.model.owner.update(dict.fromkeys(uris, place))
            places.append(place)
        self.bytes.write(uri for place in places for uri in place.uris)
        self.model.open.append(Open(instance_id, started, places))
        check_apart(uri for uri in self.model.needed() if uri.startswith("pace:"))

    async def start(self, plane: DataPlane) -> None:
        instance_id, keys = self.prompt()
        groups = [self.random.choice(GROUPS) for _ in keys] if self.random.random() < 0.4 else []
        replicas = self.random.choice([0, 0, 0, 2])
        groups = groups if instance_id == "hybrid" else []
        started = await plane.start(keys, instance_id, NEVER, groups=groups, replicas=replicas)
        self.take(instance_id, keys, groups, started)

    async def finish(self, plane: DataPlane) -> None:
        if not self.model.open:
            return
        one = self.model.open.pop(self.random.randrange(len(self.model.open)))
        mask = [self.random.random() < 0.8 for _ in one.places]
        done = [p for p, success in zip(one.places, mask, strict=True) if success]
        try:
            await plane.finish(one.started, mask, one.instance_id)
        except Died:
            self.model.maybe |= {uri for place in done for uri in place.uris} - self.model.removed
            raise
        for place in done:
            if not place.uris & (self.model.maybe | self.model.removed):
                self.model.sure[place.instance_id, place.key] |= place.uris

    def forget(self, instance_id: str, keys: list[int] | None, *, is_sure: bool) -> None:
        """A removal took everything there was of these keys, what is being written included.

        A Finish that comes later brings nothing back.
        """

        def is_meant(place: Written) -> bool:
            return place.instance_id == instance_id and (keys is None or place.key in keys)

        gone = {uri for one in self.model.open for p in one.places if is_meant(p) for uri in p.uris}
        for uris in [self.model.sure[p.instance_id, p.key] for p in self.model.places() if is_meant(p)]:
            gone |= uris
            uris.clear()
        if is_sure:
            self.model.maybe = {uri for uri in self.model.maybe if not is_meant(self.model.owner[uri])}
            self.model.removed |= gone
        else:
            self.model.maybe |= gone - self.model.removed

    async def remove(self, plane: DataPlane) -> None:
        instance_id, keys = self.prompt()
        try:
            await plane.service.remove_cache(instance_id, Blocks(keys, ()), None)
        except Died:
            self.forget(instance_id, keys, is_sure=False)
            raise
        self.forget(instance_id, keys, is_sure=True)

    async def trim(self, plane: DataPlane) -> None:
        instance_id = self.random.choice(list(SHARDS))
        try:
            await plane.service.trim_cache(instance_id, 1, 0, 0)
        except Died:
            self.forget(instance_id, None, is_sure=False)
            raise
        self.forget(instance_id, None, is_sure=True)

    async def match(self, plane: DataPlane) -> None:
        instance_id, keys = self.prompt()
        for key, location in zip(keys, await plane.match(keys, 1, instance_id=instance_id), strict=True):
            for _, uri in location.specs:
                self.check(instance_id, key, uri)
        prefix = await plane.match(keys, instance_id=instance_id)
        for key, location in zip(keys, prefix, strict=False):
            for _, uri in location.specs:
                self.check(instance_id, key, uri)

    def check(self, instance_id: str, key: int, uri: str) -> None:
        if uri:
            place = self.model.owner[uri]
            assert (place.instance_id, place.key) == (instance_id, key)
            assert uri in self.model.sure[instance_id, key] or uri in self.model.maybe

    async def expire(self, plane: DataPlane) -> None:
        """All deadlines pass, and some process sweeps: what is open fails."""
        pass_time(plane)
        await plane.duties()
        for one in self.model.open:
            with pytest.raises(DomainError) as caught:
                await plane.finish(one.started, len(one.places), one.instance_id)
            assert caught.value.code is Code.INTERNAL
        self.model.open.clear()

    async def free(self, plane: DataPlane) -> None:
        plane.make_due()
        await plane.duties()

    async def step(self) -> None:
        actions = [self.start] * 4 + [self.finish] * 4 + [self.match] * 2 + [self.remove, self.free]
        if self.random.random() < 0.05:
            actions = [self.trim, self.expire]
        action = self.random.choice(actions)
        if action in (self.start, self.finish, self.remove, self.trim, self.free) and (
            self.random.random() < 0.3
        ):
            await self.die_in(action)
        else:
            await action(self.plane())

    def is_sure(self, instance_id: str, key: int) -> bool:
        """Whether, of something that was asked for, every spec is served for certain."""
        places = [self.model.owner[uri] for uri in self.model.sure[instance_id, key]]
        there = frozenset().union(*(place.specs for place in places))
        return any(place.target <= there for place in places)

    async def settle(self) -> None:
        """Everybody stops; the sweeps repair. What was acknowledged is there, and the figures are right."""
        plane = self.planes[0]
        await self.expire(plane)
        for _ in range(3):
            pass_time(plane)
            plane.make_due()
            await plane.duties()
        served = 0
        for instance_id in SHARDS:
            keys = [root * 10_000 + depth for root in range(3) for depth in range(1, 701)]
            answers = await plane.match(keys, 1, instance_id=instance_id)
            for key, location in zip(keys, answers, strict=True):
                shown = {uri for _, uri in location.specs if uri}
                for uri in shown:
                    self.check(instance_id, key, uri)
                assert bool(shown) or not self.is_sure(instance_id, key)
                served += bool(shown)
        count = await plane.recount()
        assert (count.has_drift, count.reserved) == (False, 0)
        assert count.used or not served
        self.bytes.check(set().union(*self.model.sure.values()))
        await check_memory(plane)


def pass_time(plane: DataPlane) -> None:
    """Every deadline of every session, ticket and reservation lies in the past."""
    client = plane.client
    for instance_id, shards in SHARDS.items():
        for shard in range(shards):
            base = keyspace.instance(NUMBERS[instance_id], shard)
            for name, due, past in (
                (keyspace.sessions(base), keyspace.session_deadlines(base), 12),
                (keyspace.tickets(base), keyspace.ticket_deadlines(base), 6),
            ):
                for session in client.zrange(due, 0, -1):
                    header = client.hget(name, session)
                    if header is not None:
                        late = header[:1] + (1).to_bytes(6) * (past // 6) + header[1 + past :]
                        client.hset(name, session, late)
                    client.zadd(due, {session: 1})
    deadlines = [keyspace.group_reservation_deadlines(keyspace.group(1))]
    deadlines += [keyspace.pool_lease_deadlines(keyspace.storage(number)) for number in SEGMENTS]
    for name in deadlines:
        for member in client.zrange(name, 0, -1):
            client.zadd(name, {member: 1})


async def check_memory(plane: DataPlane) -> None:
    """What is taken of pools is what blocks have, and no lease is left."""
    session = await plane.session()
    storages = list(session.registry.storages.values())
    for count in await recount_pools(plane.index, storages, session.all_instances, repair=False):
        assert (count.leaked, count.missing) == ([], [])
        assert leases(plane.client, count.segment.number) == []


@pytest.fixture(params=[False, True], ids=["files", "pool-first"])
def has_pool(request) -> bool:
    return request.param


@pytest.fixture
async def program(plane, empty_valkey, request, has_pool):
    layers = [("full", 1024), ("state", 512)]
    names = [("attention", ["full"]), ("recurrent", ["state"])]
    async with AsyncExitStack() as stack:
        transfer = None
        if has_pool:
            # Slots are 4 KiB at least; these parts are larger, so that the pool fills up now and then.
            layers = [("full", 20_000), ("state", 9_000)]
            host = stack.enter_context(agent_host())
            agents = [host.start(f"node-{n}", f"{slabs * SLAB_BYTES}") for n, slabs in SEGMENTS.items()]
            transfer = stack.enter_context(PoolTransfer(spec_of(*agents)))
            plane.publish(
                2,
                pool_storage(*agents, name="pool_01", number=100),
                group(storage_candidates=("pool_01", "nfs_01")),
                instance(specs=[("tp0", 30_000)]),
            )
        hybrid = instance("hybrid", 0xDEF, specs=layers, groups=names, shards=SHARDS["hybrid"])
        plane.publish(3, hybrid)
        await plane.mirror.refresh()

        async def connect() -> DataPlane:
            return await stack.enter_async_context(
                data_plane(empty_valkey.url, plane.client, cache_bytes=200_000, is_strict=True)
            )

        planes = [await connect() for _ in range(PROCESSES)]
        yield Program(planes, request.param, connect, BlockBytes(transfer))


async def run(program: Program, steps: int, disk) -> None:
    for number in range(steps):
        await program.step()
        if number % 100 == 99:
            await program.settle()
    await program.settle()
    plane = program.planes[0]
    for instance_id in SHARDS:
        await plane.service.trim_cache(instance_id, 1, 0, 0)
    for _ in range(3):
        plane.make_due()
        await plane.duties()
    count = await plane.recount()
    assert (count.used, count.has_drift) == (0, False)
    left = [path for path in disk.rglob("*") if path.is_file() and path.name != ".kvcm-storage"]
    assert left == []
    await check_memory(plane)
    assert [figures(plane.client, number).ranges for number in SEGMENTS] == [0] * len(SEGMENTS)


@pytest.mark.parametrize("program", range(4), indirect=True)
async def test_random_programs_with_crashes(program, tmp_path):
    await run(program, 150, tmp_path / "nfs")


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("program", [4711], indirect=True)
async def test_a_long_random_program_with_crashes(program, tmp_path):
    await run(program, 2000, tmp_path / "nfs")
