"""What a trim would take is what it takes, and counting changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from kvcm_platform.core.ports import TrimMode
from kvcm_platform.index import trims
from kvcm_platform.index.trims import Progress, Trim, TrimCount, count
from tests.support.data_plane import DataPlane, group, instance, storage
from tests.support.evictions import evict_all

SIZE = 1024
FOREVER = 1 << 47
NOTHING = TrimCount(0, 0, {}, is_complete=True)


def clock_ms(plane: DataPlane) -> int:
    seconds, micros = plane.client.time()
    return seconds * 1000 + micros // 1000


async def counted(plane: DataPlane, mode: TrimMode, begin_ms: int = 0, end_ms: int = FOREVER) -> TrimCount:
    entry = plane.mirror.current.instances["model-a"]
    return await count(plane.index, entry, mode, begin_ms, end_ms, 60)


@pytest.mark.parametrize("mode", list(TrimMode))
async def test_the_count_is_what_goes(plane, tmp_path, mode):
    """Served, being written, failed, on two storages, of several times, some blocks at two places."""
    plane.publish(2, storage(tmp_path / "two", name="nfs_02", number=2))
    times = [0]
    for version, (names, begin) in enumerate(
        [(("nfs_01",), 0), (("nfs_02",), 500), (("nfs_01", "nfs_02"), 1000)], 3
    ):
        plane.publish(version, group(version=version, storage_candidates=names))
        await plane.mirror.refresh()
        await plane.write(range(begin, begin + 300))
        times.append(clock_ms(plane) + 1)
        await asyncio.sleep(0.003)
    await plane.write(range(40), replicas=2)
    await plane.start(range(2000, 2050))
    failed = await plane.start(range(3000, 3010))
    await plane.finish(failed, 4)
    whole = await counted(plane, mode)
    assert whole.blocks == 900 + 40 + 4 + (0 if mode is TrimMode.TIME else 50)
    assert whole.size == whole.blocks * SIZE
    assert {number: blocks * SIZE for number, (blocks, _) in whole.by_number.items()} == {
        number: size for number, (_, size) in whole.by_number.items()
    }
    assert whole.by_number[2][0] == 300 + 40
    spans = zip(times, [*times[1:], FOREVER + 1], strict=True)
    found = [await counted(plane, mode, begin, end - 1) for begin, end in spans]
    assert [part.blocks for part in found[:3]] == [300, 300, 300]
    assert sum(part.blocks for part in found) == whole.blocks
    entry = plane.mirror.current.instances["model-a"]
    for part, begin, end in zip(found, times, [*times[1:], FOREVER + 1], strict=True):
        went = Progress()
        await trims.run(plane.index, Trim(entry, mode, begin, end - 1, 0, id=f"{begin}"), went)
        assert went.marked == part.blocks
    assert await counted(plane, mode) == NOTHING


async def test_only_what_lies_in_the_span_inclusive(plane):
    await plane.write([1, 2])
    await asyncio.sleep(0.01)
    middle = clock_ms(plane)
    await asyncio.sleep(0.01)
    await plane.write([3])
    assert (await counted(plane, TrimMode.TIME, 0, middle)).blocks == 2
    assert (await counted(plane, TrimMode.TIME, middle, FOREVER)).blocks == 1
    assert (await counted(plane, TrimMode.TIME, middle, middle)) == NOTHING
    await evict_all(plane)
    assert (await counted(plane, TrimMode.UNTIL)) == NOTHING, "they are on their way"


async def test_sizes_beyond_four_gigabytes_are_exact(plane):
    size, shards = (5 << 32) + 7, plane.mirror.current.instances["model-a"].shards
    plane.publish(2, replace(instance(specs=[("tp0", size)]), shards=shards))
    await plane.mirror.refresh()
    await plane.write([1, 2])
    found = await counted(plane, TrimMode.UNTIL)
    assert (found.size, found.by_number) == (2 * size, {1: (2, 2 * size)})


async def test_without_time_it_says_that_it_is_not_complete(plane):
    await plane.write(range(10))
    entry = plane.mirror.current.instances["model-a"]
    found = await count(plane.index, entry, TrimMode.UNTIL, 0, FOREVER, -1)
    assert found == TrimCount(0, 0, {}, is_complete=False)


async def test_a_block_that_comes_on_two_pages_counts_once(plane, monkeypatch):
    """While the server resizes its table HSCAN may give a field twice."""
    await plane.write(range(1, 2001))
    await plane.write(range(1, 301), replicas=2)
    call, pages = plane.index.connection.call, []

    async def twice(*command, **options):
        reply = await call(*command, **options)
        if command[:2] == ("FCALL", "kvcm_trim_count"):
            pages.append(reply[1])
            return [reply[0], b"".join(pages[-2:])]
        return reply

    expected = await counted(plane, TrimMode.UNTIL)
    monkeypatch.setattr(plane.index.connection, "call", twice)
    assert await counted(plane, TrimMode.UNTIL) == expected
    assert len(pages) > 1


def test_a_row_is_read_as_the_function_makes_it():
    row = np.frombuffer(bytes(8) + bytes([9, 1, 2]) + bytes([0, 1, 0, 0, 0, 3]), trims._ROW)
    assert [(one["number"], one["size_high"], one["size"]) for one in row] == [(258, 1, 3)]
