"""Copies between storages: a block is served from one of its places at every moment (DESIGN 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kvcm_platform.core.migration import Direction
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.types import Retention, StorageType
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties.copy_waves import Stop
from kvcm_platform.index import copying
from tests.support.copies import BLOCK, Tiers, tiers

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def two(empty_valkey, client, tmp_path, shards: int) -> AsyncIterator[Tiers]:
    async with tiers(empty_valkey.url, client, tmp_path, shards) as built:
        yield built


async def test_a_requested_move_serves_every_block_from_its_new_place(two: Tiers) -> None:
    keys = list(range(1, 701))
    await two.write(keys)
    ((what, tally),) = await two.round(two.request())
    assert (what.direction, tally.stop, tally.copied_blocks) == (Direction.REQUEST, Stop.DONE, 700)
    assert tally.copied_bytes == 700 * BLOCK
    assert await two.read(keys) == {"slow": 700}
    assert two.held() == {"fast": 0, "slow": 700 * BLOCK}
    await two.settle()
    assert not two.files("fast")
    assert await two.read(keys) == {"slow": 700}


async def test_keep_both_leaves_the_source_served(two: Tiers) -> None:
    keys = list(range(1, 101))
    await two.write(keys)
    await two.round(two.request(retention=Retention.KEEP_BOTH))
    assert two.held() == {"fast": 100 * BLOCK, "slow": 100 * BLOCK}
    places = [await two.read(keys) for _ in range(20)]
    assert {name for found in places for name in found} == {"fast", "slow"}
    # Once more moves nothing; a move then drops the source alone.
    ((_, again),) = await two.round(two.request("b", retention=Retention.KEEP_BOTH))
    assert (again.copied_blocks, again.there_blocks) == (0, 100)
    ((_, moved),) = await two.round(two.request("c"))
    assert (moved.copied_blocks, moved.there_blocks) == (0, 100)
    assert await two.read(keys) == {"slow": 100}


async def test_a_policy_moves_the_coldest_down_to_the_low_mark(two: Tiers) -> None:
    two.set_policy(trigger_ratio=0.8, low_ratio=0.5, capacity=100 * BLOCK)
    for begin in range(1, 161, 16):
        await two.write(range(begin, begin + 16))
    await two.touch(range(1, 17))
    ((what, tally),) = await two.round()
    assert what.direction is Direction.DEMOTION
    # From 160 down to 50, by whole runs: the coldest, and so not those that were used just now.
    assert 110 <= tally.copied_blocks <= 125
    found = await two.places(range(1, 161))
    assert {found[key] for key in [*range(1, 17), *range(129, 161)]} == {"fast"}
    assert {found[key] for key in range(17, 113)} == {"slow"}
    assert await two.round() == []


async def test_nothing_moves_below_the_trigger(two: Tiers) -> None:
    two.set_policy(trigger_ratio=0.8, low_ratio=0.5, capacity=100 * BLOCK)
    await two.write(range(1, 80))
    assert await two.round() == []


async def test_the_share_of_a_type_quota_counts_as_well(two: Tiers) -> None:
    two.set_policy(trigger_ratio=0.8, low_ratio=0.5, quota=Quota(1 << 40, {StorageType.HF3FS: 100 * BLOCK}))
    await two.write(range(1, 91))
    ((_, tally),) = await two.round()
    assert 40 <= tally.copied_blocks <= 56


async def test_used_blocks_come_back(two: Tiers) -> None:
    two.set_policy(promote_after_hits=3, capacity=1000 * BLOCK)
    await two.write(range(1, 65))
    await two.round(two.request())
    assert await two.read(range(1, 65)) == {"slow": 64}
    await two.use(range(1, 17), 1)
    assert await two.copied() == {"promotion": 0}
    await two.use(range(1, 17), 2)
    # Their whole runs come, which several shards cut differently.
    assert (await two.copied())["promotion"] >= 16
    found = await two.places(range(1, 65))
    assert {found[key] for key in range(1, 17)} == {"fast"}
    assert "slow" in found.values()
    # Their uses count anew.
    await two.round(two.request("b"))
    assert await two.read(range(1, 65)) == {"slow": 64}
    assert await two.copied() == {"promotion": 0}


async def test_uses_fade_and_are_few(two: Tiers, monkeypatch) -> None:
    """A use that is a half-life old counts half; what a policy does not ask for is not counted at all."""
    await two.write(range(1, 33))
    await two.round(two.request())
    await two.use(range(1, 33), 9)
    assert await two.heat() == 0
    two.set_policy(promote_after_hits=3, capacity=1000 * BLOCK)
    await two.use(range(1, 33), 2)
    assert await two.heat() > 0
    # Uses of what is on the source already do not count.
    await two.write(range(101, 117))
    before = await two.heat()
    await two.use(range(101, 117), 5)
    assert await two.heat() == before


async def test_a_removal_in_the_middle_wins(two: Tiers) -> None:
    keys = list(range(1, 65))
    await two.write(keys)
    copy = await two.open_copy(keys)
    await two.move_bytes(copy)
    await two.plane.service.remove_cache("model-a", Blocks(keys[:32], ()), None)
    served = await copying.finish_copy(two.index, copy, [True] * 64)
    assert served == [block.key > 32 for block in copy.blocks]
    assert set(await two.places(keys)) == set(keys[32:])
    await two.settle()
    assert (await two.plane.recount()).drift == {}


async def test_a_copy_whose_source_went_and_was_written_anew_fails(two: Tiers) -> None:
    keys = list(range(1, 17))
    await two.write(keys)
    copy = await two.open_copy(keys)
    await two.move_bytes(copy)
    await two.forget_source(keys)
    await two.write(keys)
    served = await copying.finish_copy(two.index, copy, [True] * len(keys))
    assert served == [False] * len(keys)
    await two.settle()
    assert await two.read(keys) in ({"fast": 16}, {})
