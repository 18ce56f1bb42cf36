"""Quotas and high marks in the index: what counts, what is never passed, and who is told of a mark."""

from __future__ import annotations

from kvcm_platform.core.reclaim.marks import ReclaimUsage
from kvcm_platform.core.types import WIRE_STORAGE_TYPE, Retention, StorageType
from kvcm_platform.index import keyspace
from kvcm_platform.index.held_bytes import read_usage
from tests.support.copies import FAST, SLOW, tiers
from tests.support.data_plane import DataPlane

BLOCK, GROUP, INSTANCE = 1024, 1, 0xABC
NFS = WIRE_STORAGE_TYPE[StorageType.NFS]


async def usage_of(plane: DataPlane) -> ReclaimUsage:
    await plane.index.pusher.flush()
    return await read_usage(plane.index.connection, [GROUP])


async def reserve(plane: DataPlane, size: int) -> list[bytes | int]:
    """What a Start does first; nothing is inserted after it."""
    command = ("FCALL", "kvcm_reserve", 1, keyspace.group(GROUP), "s" * 32, plane.index.now_ms() + 60_000)
    return await plane.index.connection.call(*command, size, 1, NFS, f"{INSTANCE}:0", size)


async def test_live_is_what_is_written_served_or_reserved(plane: DataPlane) -> None:
    """Blocks 1 to 8 are served, 9 and 10 written, one more reserved; 1 to 3 wait for their deletion."""
    await plane.write(range(1, 9))
    await plane.start([9, 10])
    await reserve(plane, BLOCK)
    await plane.index.remove(plane.mirror.current.instances["model-a"], [1, 2, 3], 60_000)
    assert await usage_of(plane) == ReclaimUsage(
        bytes_of={(GROUP, 1): 7 * BLOCK},
        reserved_of={GROUP: BLOCK},
        reserved_by_type={(GROUP, StorageType.NFS): BLOCK},
        blocks_of={(GROUP, INSTANCE): 7},
    )


async def test_a_block_with_two_locations_is_one_key(empty_valkey, client, tmp_path, shards: int) -> None:
    async with tiers(empty_valkey.url, client, tmp_path, shards) as two:
        await two.write(range(1, 101))
        await two.round(two.request(retention=Retention.KEEP_BOTH))
        found = await usage_of(two.plane)
        number = two.instance.number
        assert found.bytes_of == {(GROUP, FAST): 100 * BLOCK, (GROUP, SLOW): 100 * BLOCK}
        assert found.blocks_of == {(GROUP, number): 100}
