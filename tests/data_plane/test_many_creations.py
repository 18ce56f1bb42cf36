"""100,000 random creations and deletions on slot files and on a memory pool.

No two blocks share a place, no URI comes twice, what lives has its own bytes, and in the end nothing is
left: no usage, no file and no byte on the disk, no taken memory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from kvcm_platform.core.pool_layout import SLAB_BYTES, pool_range, slot_class
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index.pending import RedisSlotLedger
from kvcm_platform.index.pool_recount import recount_pools
from kvcm_platform.storage.backend import Ledgers
from kvcm_platform.storage.registry import backend_for
from kvcm_platform.transfer.pool import PoolTransfer
from tests.support.block_bytes import BlockBytes
from tests.support.data_plane import DataPlane, found, group, instance
from tests.support.mempool import agent_host, pool_storage, spec_of
from tests.support.pools import figures, leases

STEPS = 100_000
BLOCK = 8192
MOST_ALIVE = 6000
SLABS = 24


class SlotFiles:
    """The real files of an nfs storage."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.bytes = BlockBytes()

    def take(self, uris: Sequence[str]) -> None: ...

    def let_go(self, uris: Sequence[str]) -> None: ...

    async def check_empty(self, plane: DataPlane) -> None:
        left = [path for path in self._root.rglob("*") if path.is_file() and path.name != ".kvcm-storage"]
        assert left == []


class Memory:
    """A pool of one real agent, and beside it a table of who has which page of its memory."""

    def __init__(self, transfer: PoolTransfer) -> None:
        self._owners: dict[int, str] = {}
        self.bytes = BlockBytes(transfer)

    def _pages(self, uri: str) -> range:
        one = pool_range(parse_uri(uri))
        return range(one.offset, one.offset + slot_class(one.size).slot_bytes, 4096)

    def take(self, uris: Sequence[str]) -> None:
        for uri in uris:
            for page in self._pages(uri):
                assert self._owners.setdefault(page, uri) == uri

    def let_go(self, uris: Sequence[str]) -> None:
        for uri in uris:
            for page in self._pages(uri):
                assert self._owners.pop(page) == uri

    async def check_empty(self, plane: DataPlane) -> None:
        session = await plane.session()
        storages = list(session.registry.storages.values())
        (count,) = await recount_pools(plane.index, storages, session.all_instances, repair=False)
        assert (count.taken, count.has_drift) == (0, False)
        assert (figures(plane.client).used_slabs, leases(plane.client)) == (0, [])
        backend = backend_for(
            session.registry.storages["pool_01"], Ledgers(RedisSlotLedger(plane.index.connection, 101))
        )
        assert backend is not None
        try:
            assert [one async for one in backend.objects()] == []
        finally:
            await backend.close()


class Program:
    def __init__(self, plane: DataPlane, medium: SlotFiles | Memory, seed: int) -> None:
        self._plane = plane
        self._medium = medium
        self._random = random.Random(seed)
        self._issued: set[str] = set()
        self._alive: dict[int, str] = {}
        self._keys = 0
        self.steps = 0

    async def create(self, count: int) -> None:
        keys = range(self._keys, self._keys + count)
        self._keys += count
        started = await self._plane.start(keys)
        uris = [found(wire).uri for wire in started.locations]
        assert not self._issued.intersection(uris), "a URI came twice"
        self._issued.update(uris)
        mask = [self._random.random() < 0.9 for _ in uris]
        self._medium.take(uris)
        self._medium.bytes.write(uris)
        self._alive |= {key: uri for key, uri, done in zip(keys, uris, mask, strict=True) if done}
        self._medium.let_go([uri for uri, is_written in zip(uris, mask, strict=True) if not is_written])
        await self._plane.finish(started, mask)
        self.steps += count

    async def delete(self, count: int) -> None:
        keys = self._random.sample(list(self._alive), min(count, len(self._alive)))
        if not keys:
            return
        uris = [self._alive.pop(key) for key in keys]
        self._medium.bytes.check(uris)
        self._medium.let_go(uris)
        await self._plane.service.remove_cache("model-a", Blocks(keys, ()), None)
        self.steps += len(keys)

    async def step(self) -> None:
        count = self._random.choice([1, 3, 17, 64, 200, 700])
        if len(self._alive) > MOST_ALIVE or self._random.random() < 0.45:
            await self.delete(count)
        else:
            await self.create(count)
        if self._random.random() < 0.1:
            await self.settle(self._random.choice([1, 1, 2]))

    async def settle(self, rounds: int) -> None:
        for _ in range(rounds):
            for _ in range(20):
                self._plane.make_due()
                report = await self._plane.duties()
                assert report.failures == 0
                if report.deletions.postponed == 0:
                    break
                await asyncio.sleep(0.5)  # An agent that stalls is asked again.
            assert report.deletions.postponed == 0

    async def check(self) -> None:
        self._medium.bytes.check(self._alive.values())
        keys = list(self._alive)
        for at in range(0, len(keys), 4096):
            part = keys[at : at + 4096]
            answers = await self._plane.match(part, 1)
            assert [one.uri for one in answers] == [self._alive[key] for key in part]
        assert not (await self._plane.recount()).has_drift

    async def run(self, steps: int) -> None:
        checked = 0
        while self.steps < steps:
            await self.step()
            if self.steps - checked > steps // 10:
                checked = self.steps
                await self.check()
        await self.delete(len(self._alive))
        await self.settle(4)
        counts = await self._plane.recount()
        assert (counts.used, counts.reserved, counts.has_drift) == (0, 0, False)
        await self._medium.check_empty(self._plane)


@pytest.fixture(params=["slot files", "pool"])
async def medium(plane: DataPlane, request, tmp_path) -> AsyncIterator[SlotFiles | Memory]:
    plane.publish(2, instance(specs=[("tp0", BLOCK)]))
    await plane.mirror.refresh()
    if request.param == "slot files":
        yield SlotFiles(tmp_path / "nfs")
        return
    with agent_host() as host:
        agent = host.start("node-1", f"{SLABS * SLAB_BYTES}")
        entry = pool_storage(agent, name="pool_01", number=100)
        plane.publish(3, entry, group(storage_candidates=("pool_01",)))
        await plane.mirror.refresh()
        with PoolTransfer(spec_of(agent)) as transfer:
            yield Memory(transfer)


async def test_some_creations_and_deletions(plane, medium):
    await Program(plane, medium, 1).run(3000)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_100_000_creations_and_deletions(plane, medium):
    await Program(plane, medium, 4711).run(STEPS)
