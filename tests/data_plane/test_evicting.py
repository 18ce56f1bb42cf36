"""Eviction: which blocks go, that nothing else does, and that each run's account says what became of them."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from kvcm_platform.core.registry import Quota
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import codec, evicting, keyspace
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.evicting import RunAccount
from kvcm_platform.index.shards import shards_of
from tests.support.data_plane import DataPlane, group, instance, storage
from tests.support.evictions import RUN_ID, account, coldest, evict_all, evict_runs, keys_of, spoil

KEYS = list(range(1, 41))
SIZE = 1024


async def age(plane: DataPlane, groups: list[list[int]]) -> None:
    """Writes prompts one after the other, so that the first is the coldest."""
    for number, keys in enumerate(groups):
        await plane.write(keys)
        for run in await coldest(plane):
            if set(keys_of(plane, run)) & set(keys):
                tick = 1_700_000_000_000 + number * 1000
                depth = keys.index(keys_of(plane, run)[0])
                plane.client.zadd(keyspace.recency(run.shard.base), {run.name: tick * 4096 + 4095 - depth})


async def test_evicted_blocks_are_misses_at_once_and_free_their_space_when_due(plane, tmp_path):
    await plane.write(KEYS)
    assert len(await plane.match(KEYS)) == len(KEYS)
    evicted = await evict_all(plane, delay_ms=60_000)
    assert (evicted.blocks, evicted.size) == (len(KEYS), len(KEYS) * SIZE)
    assert (evicted.used_meanwhile, evicted.young, evicted.poisoned) == ([], 0, [])
    assert evicted.by_number == {1: (len(KEYS), len(KEYS) * SIZE)}
    assert await plane.match(KEYS) == []
    assert set(await plane.statuses(KEYS)) == {"DELETING"}
    count = await plane.recount()
    assert (count.used, count.drift) == (len(KEYS) * SIZE, {}), "they count until they are freed"
    assert await account(plane) == RunAccount(len(KEYS), len(KEYS) * SIZE)
    assert (await plane.duties()).deletions.deleted == 0, "readers have their time"
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == len(KEYS)
    assert set(await plane.statuses(KEYS)) == {"NOT_FOUND"}
    count = await plane.recount()
    assert (count.used, count.drift) == (0, {})
    assert await account(plane) == RunAccount(len(KEYS), len(KEYS) * SIZE, len(KEYS), len(KEYS) * SIZE)
    assert await coldest(plane) == []
    assert len((await plane.write(KEYS)).locations) == len(KEYS)


async def test_a_run_that_is_named_again_gives_further_blocks(plane):
    """A plan with parts by instance comes back to a run that it took some blocks of."""
    await plane.write(KEYS)
    runs = await coldest(plane)
    evicted = await evict_runs(plane, [(run, most) for run in runs for most in (1, 2, 16)])
    assert (evicted.blocks, evicted.size) == (len(KEYS), len(KEYS) * SIZE)
    assert await account(plane) == RunAccount(len(KEYS), len(KEYS) * SIZE)
    assert (await plane.recount()).drift == {}


async def test_a_run_goes_from_its_tail(plane):
    await plane.write(KEYS[:16])
    runs = await coldest(plane)
    whole = {run.name: keys_of(plane, run) for run in runs}
    evicted = await evict_runs(plane, [(run, 2) for run in runs])
    for run in runs:
        keys = whole[run.name]
        kept = ["SERVING"] * max(0, len(keys) - 2)
        assert await plane.statuses(keys) == kept + ["DELETING"] * min(2, len(keys))
    # Those that are on their way count no more: the next ones go.
    again = await evict_runs(plane, [(run, 1) for run in runs])
    assert (evicted.blocks, again.blocks) == (
        sum(min(2, len(keys)) for keys in whole.values()),
        sum(len(keys) > 2 for keys in whole.values()),
    )
    plane.make_due()
    await plane.duties()
    for run in runs:
        assert keys_of(plane, run) == whole[run.name][: max(0, len(whole[run.name]) - 3)]
    assert (await plane.recount()).drift == {}


async def test_what_was_used_since_it_was_looked_at_stays(plane):
    await age(plane, [KEYS[:8], KEYS[8:16]])
    runs = await coldest(plane)
    await plane.match(KEYS[:8])
    await plane.index.recency.flush()
    used = [run for run in runs if set(keys_of(plane, run)) & set(KEYS[:8])]
    evicted = await evict_runs(plane, [(run, 16) for run in runs])
    assert sorted(evicted.used_meanwhile) == sorted(run.name for run in used)
    assert evicted.blocks == 8
    assert await plane.statuses(KEYS[:16]) == ["SERVING"] * 8 + ["DELETING"] * 8


async def test_blocks_being_written_stay_and_those_before_them(plane):
    started = await plane.start(KEYS[:20])
    evicted = await evict_all(plane)
    assert (evicted.blocks, evicted.young) == (0, 20)
    assert set(await plane.statuses(KEYS[:20])) == {"WRITING"}
    await plane.finish(started, 20)
    assert (await evict_all(plane)).blocks == 20
    # A part of a run that serves stays as long as a block behind it is being written.
    await plane.write(KEYS[20:24])
    (victim, *_) = [run for run in await coldest(plane) if set(keys_of(plane, run)) & set(KEYS[20:24])]
    keys = keys_of(plane, victim)
    blocks, last = keyspace.blocks(victim.shard.base), codec.pack_keys(keys[-1:])
    record = plane.client.hget(blocks, last)
    spoil(plane, victim, keys[-1], bytes((2,)) + record[1:])
    assert (await evict_runs(plane, [(victim, 16)])).young == len(keys)
    spoil(plane, victim, keys[-1], record)
    assert (await evict_runs(plane, [(victim, 16)])).blocks == len(keys)


async def test_blocks_finished_a_moment_ago_stay(plane):
    await plane.write(KEYS[:10])
    before = await plane.index.read_clock(plane.mirror.current.instances["model-a"])
    seconds, micros = plane.client.time()
    finished = seconds * 1000 + micros // 1000
    assert (await evict_all(plane, written_before_ms=before - 60_000)).young == 10
    assert set(await plane.statuses(KEYS[:10])) == {"SERVING"}
    assert (await evict_all(plane, written_before_ms=finished)).blocks == 10


async def test_scoped_to_storages_only_locations_there_go(plane, tmp_path):
    plane.publish(2, storage(tmp_path / "two", name="nfs_02", number=2), group(version=2))
    await plane.write(KEYS[:8])
    plane.publish(3, group(version=3, storage_candidates=("nfs_02",)))
    await plane.mirror.refresh()
    await plane.write(KEYS[8:16])
    assert (await evict_all(plane, numbers=[])).blocks == 0
    assert (await evict_all(plane, numbers=[7, 900])).blocks == 0
    evicted = await evict_all(plane, numbers=[2, 900])
    assert evicted.by_number == {2: (8, 8 * SIZE)}
    assert await plane.statuses(KEYS[:16]) == ["SERVING"] * 8 + ["DELETING"] * 8


async def test_one_of_several_locations_goes_and_the_block_stays(plane, tmp_path):
    second = storage(tmp_path / "two", name="nfs_02", number=2)
    plane.publish(2, second, group(version=2, storage_candidates=("nfs_01", "nfs_02")))
    await plane.mirror.refresh()
    await plane.write(KEYS[:4])
    await plane.write(KEYS[:4], replicas=2)
    held = {run.name: keys_of(plane, run) for run in await coldest(plane)}
    assert sum(len(keys) for keys in held.values()) == 8
    evicted = await evict_all(plane, numbers=[2])
    assert evicted.by_number == {2: (4, 4 * SIZE)}
    assert len(await plane.match(KEYS[:4])) == 4, "the other location serves"
    # Both locations of a block in one call.
    assert (await evict_all(plane)).blocks == 4
    assert await plane.match(KEYS[:4]) == []
    plane.make_due()
    await plane.duties()
    assert (await plane.recount()).drift == {}


async def test_more_than_one_call_takes(plane):
    many = list(range(1, 1001))
    await plane.write(many)
    evicted = await evict_all(plane)
    assert evicted.blocks == len(many)
    assert (await plane.recount()).drift == {}
    single = list(range(2001, 2301))
    for key in single:
        await plane.write([key])
    assert (await evict_all(plane)).blocks == len(single)


@pytest.mark.parametrize("record", [b"", b"x", b"\x03" + bytes(34) + b"\xff", bytes(36), b"\x03" * 60])
async def test_a_poisoned_record_is_reported_and_the_others_go(plane, record):
    await age(plane, [KEYS[:16], KEYS[16:32], KEYS[32:40]])
    runs = await coldest(plane)
    bad = next(run for run in runs if 20 in keys_of(plane, run))
    kept = keys_of(plane, bad)
    spoil(plane, bad, 20, record)
    evicted = await evict_all(plane)
    if record == b"" or record == bytes(36):
        # Nothing of the run is there any more: that is a block without a record, and the others go.
        assert (evicted.poisoned, evicted.blocks) == ([], 39)
        return
    assert [name for name, _ in evicted.poisoned] == [bad.name]
    assert evicted.poisoned[0][1]
    assert evicted.blocks == len(KEYS) - len(kept)
    others = [key for key in KEYS if key not in kept]
    assert set(await plane.statuses(others)) == {"DELETING"}
    # The poisoned block itself cannot be asked.
    assert set(await plane.statuses([key for key in kept if key != 20])) <= {"SERVING"}


async def test_a_broken_list_of_a_run_is_reported(plane):
    await age(plane, [KEYS[:16], KEYS[16:32]])
    runs = await coldest(plane)
    plane.client.hset(keyspace.runs(runs[0].shard.base), runs[0].name, b"12345")
    evicted = await evict_runs(plane, [(run, 16) for run in runs])
    assert [name for name, _ in evicted.poisoned] == [runs[0].name]
    assert "5 bytes" in evicted.poisoned[0][1]
    assert evicted.blocks == sum(len(keys_of(plane, run)) for run in runs[1:] if run.name != runs[0].name)


async def test_what_the_function_does_not_expect_is_tried_run_by_run(plane, monkeypatch):
    await age(plane, [KEYS[:16], KEYS[16:32], KEYS[32:40]])
    runs = await coldest(plane)
    bad = runs[len(runs) // 2]
    original = plane.index.function

    async def refuses(name, *args):
        if name == "kvcm_evict" and bad.name in args:
            raise evicting.RedisError("ERR not this one")
        return await original(name, *args)

    monkeypatch.setattr(plane.index, "function", refuses)
    kept = keys_of(plane, bad)
    evicted = await evict_runs(plane, [(run, 16) for run in runs])
    assert evicted.poisoned == [(bad.name, "ERR not this one")]
    assert evicted.blocks == len(KEYS) - len(kept)


async def test_runs_that_are_gone_are_passed_over(plane):
    await plane.write(KEYS[:20])
    runs = await coldest(plane)
    await plane.service.remove_cache("model-a", Blocks(KEYS[:20], ()), None)
    assert (await evict_runs(plane, [(run, 16) for run in runs])).blocks == 0
    plane.make_due()
    await plane.duties()
    evicted = await evict_runs(plane, [(run, 16) for run in runs])
    assert (evicted.blocks, evicted.used_meanwhile, evicted.poisoned) == (0, [], [])


async def test_a_refused_deletion_is_on_the_account_until_it_succeeds(plane, tmp_path):
    await plane.write(KEYS[:10])
    await evict_all(plane)
    all_bytes = 10 * SIZE
    os.rename(tmp_path / "nfs", tmp_path / "away")
    for _ in range(2):  # a second refusal counts no more
        plane.make_due()
        assert (await plane.duties()).deletions.postponed == 10
        found = await account(plane)
        assert found == RunAccount(10, all_bytes, refused_blocks=10, refused_bytes=all_bytes)
        assert (found.waiting_blocks, found.failed_blocks) == (10, 10)
    count = await plane.recount()
    assert (count.used, count.drift) == (all_bytes, {})
    os.rename(tmp_path / "away", tmp_path / "nfs")
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 10
    assert await account(plane) == RunAccount(10, all_bytes, 10, all_bytes)
    count = await plane.recount()
    assert (count.used, count.drift) == (0, {})
    assert set(await plane.statuses(KEYS[:10])) == {"NOT_FOUND"}


async def test_what_is_left_on_a_storage_that_nobody_knows_is_orphaned_on_the_account(plane):
    await plane.write(KEYS[:10])
    await evict_all(plane)
    plane.publish(3, removed=[("storage", "nfs_01")])
    plane.make_due()
    assert (await plane.duties()).deletions.orphaned == 10
    found = await account(plane)
    assert found == RunAccount(10, 10 * SIZE, orphaned_blocks=10, orphaned_bytes=10 * SIZE)
    assert (found.waiting_blocks, found.failed_blocks) == (0, 10)
    assert plane.client.hlen(keyspace.orphans(keyspace.storage(1))) == 10
    assert (await plane.recount()).drift == {}


async def test_what_was_given_up_with_its_storage_is_orphaned_on_the_account(plane, tmp_path):
    await plane.write(KEYS[:10])
    await evict_all(plane)
    plane.publish(3, storage(tmp_path / "nfs", is_leaving=True, is_abandoned=True, is_available=False))
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 10
    assert await account(plane) == RunAccount(10, 10 * SIZE, orphaned_blocks=10, orphaned_bytes=10 * SIZE)
    assert (await plane.recount()).drift == {}


async def test_accounts_of_several_runs_over_all_shards_and_forgetting_them(plane):
    plane.publish(2, instance("model-b", 0xDEF, shards=4))
    await plane.mirror.refresh()
    other = b"another!"
    await plane.write(KEYS, "model-a")
    await plane.write(KEYS, "model-b")
    await evict_all(plane, "model-a")
    await evict_all(plane, "model-b", run_id=other)
    shards = [s for entry in plane.mirror.current.instances.values() for s in shards_of(entry)]
    found = await evicting.accounts(plane.index, shards, [other, RUN_ID, b"nothing!"])
    whole = RunAccount(len(KEYS), len(KEYS) * SIZE)
    assert found == {RUN_ID: whole, other: whole, b"nothing!": RunAccount()}
    assert await evicting.accounts(plane.index, shards, []) == {}
    await evicting.forget_accounts(plane.index, shards, [RUN_ID])
    found = await evicting.accounts(plane.index, shards, [other, RUN_ID])
    assert found == {RUN_ID: RunAccount(), other: whole}
    await evicting.forget_accounts(plane.index, shards, [other])
    assert not list(plane.client.scan_iter(match="{*:*}:er"))


async def test_quota_counts_evicted_blocks_until_they_are_freed(plane):
    plane.publish(2, group(quota=Quota(40 * SIZE)))
    await plane.mirror.refresh()
    await plane.write(KEYS)
    await plane.index.pusher.flush()
    await evict_all(plane)
    await plane.index.pusher.flush()
    totals = {name: int(n) for name, n in plane.client.hgetall(keyspace.group(1)).items()}
    assert (totals[b"u"], totals[b"p"]) == (40 * SIZE, 40 * SIZE)
    plane.make_due()
    await plane.duties()
    await plane.write(KEYS)


@pytest.mark.redis_only
async def test_a_reclaimer_whose_lease_was_taken_over_changes_nothing(plane):
    await plane.write(KEYS[:10])
    runs = await coldest(plane)
    plane.index.duty, plane.index.fence = "reclaim", 20
    await evict_runs(plane, [(runs[0], 1)])
    plane.index.fence = 19
    with pytest.raises(Fenced):
        await evict_runs(plane, [(run, 16) for run in runs])
    plane.index.duty, plane.index.fence = "", 0
    assert (await account(plane)).marked_blocks == 1


async def test_an_id_that_pending_entries_could_not_hold_is_refused(plane):
    await plane.write(KEYS[:1])
    (run,) = await coldest(plane)
    with pytest.raises(ValueError, match="8 bytes"):
        await evict_runs(plane, [(run, 1)], run_id=b"short")


@pytest.mark.parametrize("seed", range(4))
async def test_random_evictions_among_other_changes(plane, seed):
    """Whatever happens in between: usage and accounts add up, and each run serves its first blocks."""
    rng = random.Random(seed)
    ids = [bytes([number]) * 8 for number in range(3)]
    marked: Counter[bytes] = Counter()
    whole: dict[bytes, tuple[int, ...]] = {}
    for _ in range(40):
        match rng.choice(["write", "fail", "evict", "evict", "evict", "remove", "delete", "use"]):
            case "write":
                start = rng.randrange(8) * 100
                await plane.write(range(start, start + rng.randrange(1, 60)))
            case "fail":
                started = await plane.start(range(2000, 2000 + rng.randrange(1, 30)))
                await plane.finish(started, rng.randrange(len(started.locations) + 1))
            case "evict":
                runs = await coldest(plane)
                victims = [(run, rng.randrange(1, 17)) for run in rng.sample(runs, min(5, len(runs)))]
                run_id = rng.choice(ids)
                marked[run_id] += (await evict_runs(plane, victims, run_id=run_id)).blocks
            case "remove":
                at = rng.randrange(800)
                await plane.service.remove_cache("model-a", Blocks([at], ()), None)
                whole.clear()  # a run with a hole is none from whose tail alone blocks went
            case "delete":
                plane.make_due()
                await plane.duties()
            case "use":
                start = rng.randrange(8) * 100
                await plane.match(range(start, start + 30))
                await plane.index.recency.flush()
        for run in await coldest(plane):
            keys = whole.setdefault(run.name, keys_of(plane, run))
            assert keys_of(plane, run) == keys[: len(keys_of(plane, run))]
        for run_id in ids:
            found = await account(plane, run_id)
            assert found.marked_blocks == marked[run_id]
            assert 0 <= found.freed_blocks <= found.marked_blocks
        assert (await plane.recount()).drift == {}
    plane.make_due()
    await plane.duties()
    for run_id in ids:
        found = await account(plane, run_id)
        assert (found.freed_blocks, found.waiting_blocks) == (marked[run_id], 0)
        assert found.freed_bytes == found.marked_bytes == marked[run_id] * SIZE
