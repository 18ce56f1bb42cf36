"""Several processes write to one memory pool while another deletes: nobody ever has another's memory."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kvcm_platform.core.pool_layout import MIN_SLOT_BYTES, SLAB_BYTES
from kvcm_platform.core.types import StorageType
from kvcm_platform.index.pool_recount import recount_pools
from kvcm_platform.storage import registry as storage_types
from tests.support.data_plane import DataPlane, group, instance
from tests.support.pool_worker import WORD
from tests.support.pools import LEDGER_KIND, figures, leases, pool, segment

ROOT = Path(__file__).parents[2]
SLABS = 96
PROCESSES = 3


async def run(plane: DataPlane, url: str, words: Path, starts: int) -> None:
    words.write_bytes(bytes(SLABS * SLAB_BYTES // MIN_SLOT_BYTES * WORD.size))
    layers = [("full", 20_000), ("state", 70_000)]
    plane.publish(
        2,
        pool(segment(slabs=SLABS)),
        group(storage_candidates=("pool_01",)),
        instance(specs=[("tp0", 30_000)]),
        instance("hybrid", 0xDEF, specs=layers, shards=3),
    )
    workers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.pool_worker"),
            *(url, str(words), str(number + 1), str(starts)),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    ends = asyncio.gather(*(worker.communicate() for worker in workers))
    try:
        while not ends.done():
            plane.make_due()
            await plane.duties()
            await asyncio.wait({ends}, timeout=0.05)
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.kill()
    for worker, (_, errors) in zip(workers, await ends, strict=True):
        assert worker.returncode == 0, errors.decode()
    for _ in range(3):
        plane.make_due()
        await plane.duties()
    session = await plane.session()
    storages = list(session.registry.storages.values())
    (count,) = await recount_pools(plane.index, storages, session.all_instances, repair=False)
    assert (count.taken, count.has_drift) == (0, False)
    assert (figures(plane.client).used_slabs, leases(plane.client)) == (0, [])
    assert set(words.read_bytes()) == {0}
    assert (await plane.recount()).used == 0


@pytest.fixture
def pool_without_nodes(monkeypatch) -> None:
    monkeypatch.setitem(storage_types.KINDS, StorageType.TAIR_MEMPOOL, LEDGER_KIND)


async def test_processes_never_have_the_same_memory(plane, empty_valkey, tmp_path, pool_without_nodes):
    await run(plane, empty_valkey.url, tmp_path / "words", 40)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_processes_never_have_the_same_memory_for_long(
    plane, empty_valkey, tmp_path, pool_without_nodes
):
    await run(plane, empty_valkey.url, tmp_path / "words", 400)
