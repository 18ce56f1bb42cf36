"""Copies between storages: a block is served from one of its places at every moment (DESIGN 5)."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from kvcm_platform.core.migration import Direction
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.types import Retention, StorageType
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties import copy_bytes
from kvcm_platform.duties.copy_waves import Migration, Stop, Tally
from kvcm_platform.index import copying
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.gone import gone_of
from kvcm_platform.transfer import TransferError, Transfers
from tests.support.copies import BLOCK, Tiers, host_of, tiers

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


@pytest.mark.parametrize("how", ["leaving", "gone", "another"])
async def test_a_storage_that_goes_meanwhile_takes_nothing_more(two: Tiers, how: str) -> None:
    """A round goes on for long after its target may be gone, and a move would lose what it copies there."""
    keys = list(range(1, 3001))
    await two.write(keys)
    slow = two.entries["slow"]

    async def remove(_: Migration, __: Tally) -> bool:
        two.version += 1
        if how == "gone":
            two.plane.publish(two.version, removed=[("storage", "slow")])
        else:
            changed = replace(slow, is_leaving=True) if how == "leaving" else replace(slow, number=77)
            two.plane.publish(two.version, changed)
        return True

    ((_, tally),) = await two.round(two.request(), progress=remove)
    assert tally.stop is Stop.STORAGE
    assert tally.detail.startswith("slow: ")
    assert tally.copied_blocks < len(keys)
    await two.refresh()
    assert await two.read(keys) == {"fast": len(keys) - tally.copied_blocks}


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


async def test_why_a_source_went_can_be_asked(two: Tiers) -> None:
    """A copy that failed is no reason: its block went nowhere, or something else took it."""
    keys = list(range(1, 65))
    await two.write(keys)
    copy = await two.open_copy(keys)
    await two.move_bytes(copy)
    await two.plane.service.remove_cache("model-a", Blocks(keys[:32], ()), None)
    await copying.finish_copy(two.index, copy, [True] * 64)
    told = {key: [one.reason for one in gone_of(two.plane.client, two.instance, key, 9)] for key in keys}
    assert told == {key: ["remove"] if key <= 32 else ["moved"] for key in keys}


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


async def test_a_trim_by_time_in_the_middle_wins(two: Tiers) -> None:
    """It takes what is served and leaves what is being written, the copy: that must not bring blocks back."""
    keys = list(range(1, 65))
    await two.write(keys)
    copy = await two.open_copy(keys)
    await two.move_bytes(copy)
    await two.plane.service.trim_cache("model-a", 3, 0, 0)
    assert await copying.finish_copy(two.index, copy, [True] * 64) == [False] * 64
    assert await two.places(keys) == {}
    await two.settle()
    assert not (await two.plane.recount()).has_drift
    assert two.files("fast") == two.files("slow") == []


async def test_a_source_that_is_gone_from_the_record_does_not_come_back(two: Tiers) -> None:
    keys = list(range(1, 17))
    await two.write(keys)
    copy = await two.open_copy(keys)
    await two.move_bytes(copy)
    await two.plane.service.trim_cache("model-a", 3, 0, 0)
    await two.settle()
    assert await copying.finish_copy(two.index, copy, [True] * 16) == [False] * 16
    assert await two.places(keys) == {}


async def test_two_copiers_of_the_same_blocks(two: Tiers) -> None:
    keys = list(range(1, 33))
    await two.write(keys)
    blocks = await two.blocks(keys)
    first, second = await two.open_copy(keys), await two.open_copy(keys, blocks=blocks)
    assert (len(first.blocks), len(second.blocks)) == (32, 0)
    await two.move_bytes(first)
    await copying.give_up(two.index, second)
    assert await copying.finish_copy(two.index, first, [True] * 32) == [True] * 32
    assert await two.read(keys) == {"slow": 32}
    await two.settle()
    assert not (await two.plane.recount()).has_drift


async def test_what_fails_stays_where_it_is(two: Tiers) -> None:
    keys = list(range(1, 33))
    await two.write(keys)
    copy = await two.open_copy(keys)
    await two.move_bytes(copy)
    served = await copying.finish_copy(two.index, copy, [block.key % 2 == 0 for block in copy.blocks])
    assert served == [block.key % 2 == 0 for block in copy.blocks]
    assert await two.read(keys) == {"fast": 16, "slow": 16}
    # What failed may be tried again at once.
    ((_, tally),) = await two.round(two.request())
    assert tally.copied_blocks == 16


async def test_a_copy_has_the_age_and_the_time_of_its_source(two: Tiers) -> None:
    """So a trim by time finds it, and the coldest stay the coldest."""
    await two.write(range(1, 17))
    await two.write(range(17, 33))
    await two.touch(range(1, 17))
    before = {block.key: block for block in await two.blocks(range(1, 33))}
    await two.round(two.request())
    after = {block.key: block for block in await two.blocks(range(1, 33), "slow")}
    assert {key: block.location.time_ms for key, block in before.items()} == {
        key: block.location.time_ms for key, block in after.items()
    }
    oldest = [max(after[key].run.tick_ms for key in part) for part in (range(17, 33), range(1, 17))]
    assert oldest == sorted(oldest)
    assert oldest[1] <= max(block.run.tick_ms for block in before.values())


async def test_cached_matches_learn_of_every_move(two: Tiers) -> None:
    keys = list(range(1, 129))
    await two.write(keys)

    async def matched() -> set[str]:
        return {host_of(one.uri) for one in await two.plane.match(keys)}

    assert await matched() == {"fast"}
    await two.round(two.request(retention=Retention.KEEP_BOTH))
    assert set().union(*[await matched() for _ in range(40)]) == {"fast", "slow"}
    await two.round(two.request("b"))
    assert await matched() == {"slow"}
    await two.round(two.request("c", source="slow", target="fast"))
    assert await matched() == {"fast"}
    assert len(await two.plane.match(keys)) == 128


async def test_a_source_is_not_let_go_for_a_copy_that_went(two: Tiers) -> None:
    keys = list(range(1, 17))
    await two.write(keys)
    await two.round(two.request(retention=Retention.KEEP_BOTH))
    pairs = [
        (block, other)
        for block in await two.blocks(keys)
        if (other := copying.covering(block, two.entries["slow"].numbers)) is not None
    ]
    assert len(pairs) == 16
    await two.remove_from("slow", keys[:8])
    count, size = await copying.shed(two.index, two.instance, pairs, 500)
    assert (count, size) == (8, 8 * BLOCK)
    assert await two.read(keys) == {"fast": 8, "slow": 8}
    await two.settle()
    assert not (await two.plane.recount()).has_drift


async def test_a_copy_that_reads_back_differently_is_not_served(two: Tiers, monkeypatch) -> None:
    keys = list(range(1, 17))
    await two.write(keys)
    write = Transfers.write_batch

    def spoil(self, blocks):
        uri, data = blocks[0]
        return write(self, [(uri, bytes(len(data))), *blocks[1:]])

    monkeypatch.setattr(Transfers, "write_batch", spoil)
    ((_, tally),) = await two.round(two.request())
    assert (tally.copied_blocks, tally.failed_blocks) == (15, 1)
    assert tally.reasons == {"the copy reads back differently": 1}
    assert await two.read(keys) == {"fast": 1, "slow": 15}


async def test_missing_bytes_fail_alone_and_are_not_tried_for_ever(two: Tiers) -> None:
    keys = list(range(1, 17))
    await two.write(keys)
    for path in two.files("fast")[:1]:
        path.unlink()
    ((_, tally),) = await two.round(two.request())
    lost = tally.failed_blocks
    assert (tally.stop, tally.copied_blocks) == (Stop.DONE, 16 - lost)
    assert 1 <= lost <= 8
    assert await two.held_by_storage() == {"fast": lost, "slow": 16 - lost}


async def test_a_target_that_takes_nothing_keeps_the_work(two: Tiers, monkeypatch) -> None:
    keys = list(range(1, 65))
    await two.write(keys)

    def refuse(self, blocks):
        return [TransferError(uri, "No space left on device") for uri, _ in blocks]

    with monkeypatch.context() as patch:
        patch.setattr(Transfers, "write_batch", refuse)
        ((_, tally),) = await two.round(two.request())
    assert (tally.stop, tally.copied_blocks) == (Stop.STORAGE, 0)
    assert "No space left" in tally.detail
    assert await two.read(keys) == {"fast": 64}
    ((_, tally),) = await two.round(two.request())
    assert tally.copied_blocks == 64


async def test_a_storage_that_hangs_costs_its_time_limit(two: Tiers, monkeypatch) -> None:
    keys = list(range(1, 65))
    await two.write(keys)
    released = threading.Event()
    monkeypatch.setattr(copy_bytes, "CALL_SECONDS", 0.2)

    def hang(self, uris, checksums=None):
        released.wait(30)
        return [TransferError(uri, "late") for uri in uris]

    try:
        with monkeypatch.context() as patch:
            patch.setattr(Transfers, "read_batch", hang)
            ((_, tally),) = await two.round(two.request())
            assert (tally.stop, tally.copied_blocks) == (Stop.STORAGE, 0)
            assert "no answer within" in tally.detail
            ((_, tally),) = await two.round(two.request())
            assert "still hangs" in tally.detail
        assert await two.read(keys) == {"fast": 64}
    finally:
        released.set()


async def test_the_group_quota_stops_a_copy_and_nothing_is_lost(two: Tiers) -> None:
    keys = list(range(1, 65))
    await two.write(keys)
    two.set_policy(quota=Quota(70 * BLOCK), is_enabled=False)
    ((_, tally),) = await two.round(two.request())
    assert tally.stop is Stop.NO_ROOM
    assert await two.read(keys) == {"fast": 64}
    assert not (await two.plane.recount()).has_drift


async def test_the_limit_of_bytes_a_second_is_kept(two: Tiers) -> None:
    await two.write(range(1, 65))
    began = time.monotonic()
    await two.round(two.request(max_bytes_per_second=32 * BLOCK))
    assert time.monotonic() - began > 1.0
    assert await two.read(range(1, 65)) == {"slow": 64}


async def test_a_cancelled_round_stops_after_its_wave(two: Tiers) -> None:
    await two.write(range(1, 65))

    async def cancel(_: Migration, tally: Tally) -> bool:
        return False

    ((_, tally),) = await two.round(two.request(max_bytes_per_second=16 * BLOCK), progress=cancel)
    assert (tally.stop, tally.copied_blocks) == (Stop.CANCELLED, 16)
    assert await two.read(range(1, 65)) == {"fast": 48, "slow": 16}


@pytest.mark.redis_only
async def test_who_lost_the_lease_is_refused_and_other_duties_are_not(two: Tiers) -> None:
    keys = list(range(1, 17))
    await two.write(keys)
    two.index.fence, two.index.duty = 1000, "copies"
    copy = await two.open_copy(keys)
    two.index.fence = 2000
    other = await two.open_copy(keys, blocks=await two.blocks(keys))
    await copying.give_up(two.index, other)
    two.index.fence = 1000
    with pytest.raises(Fenced):
        await copying.finish_copy(two.index, copy, [True] * 16)
    # The duties of what is due have a lease, and numbers, of their own.
    two.index.fence, two.index.duty = 500, ""
    await two.plane.duties()
    await two.index.remove(two.instance, keys, 0)
    two.index.fence = 0
