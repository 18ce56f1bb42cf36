"""Rounds of reclaim that follow one another on a group: deaths, takeovers, and who keeps the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.runs import RunReport, RunState, Trigger
from kvcm_platform.duties import reclaim as rounds
from kvcm_platform.duties import reclaim_hold, reclaim_work
from kvcm_platform.index import keyspace
from kvcm_platform.index.reclaim_book import ReclaimBook
from kvcm_platform.index.shards import shards_of
from tests.data_plane.test_reclaim_troubles import KEYS, filled, troubles
from tests.support.reclaims import KIB, Died, dying, reclaim, redis_of, reports, served


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_whoever_comes_next_goes_on_with_the_run(plane, monkeypatch, calls, is_after):
    await filled(plane)
    with monkeypatch.context() as patch:
        dying(patch, calls, is_after=is_after)
        with pytest.raises(Died):
            await reclaim(plane)
    (before,) = reports(plane)
    assert before.state is RunState.CHOOSING
    assert redis_of(plane).hlen(keyspace.RECLAIM_OPEN) == 1
    # The last pushes of the dead process are made by any sweeper.
    await plane.duties()
    await reclaim(plane)
    (report,) = reports(plane)
    assert report.id == before.id
    assert (report.chosen_blocks, report.chosen_bytes, report.rounds) == (15, 15 * KIB, 2)
    assert report.by_instance == {"model-a": [15, 15 * KIB]}
    assert len(await served(plane, KEYS)) == 75
    plane.make_due()
    await plane.duties()
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.freed_blocks) == (RunState.DONE, 15)
    assert (await plane.recount()).drift == {}


@pytest.mark.parametrize("is_ended", [False, True], ids=["open", "ended"])
async def test_a_round_goes_on_with_what_began_after_it_had_read_the_book(plane, monkeypatch, is_ended):
    """Another process held the group meanwhile and died, or brought an open run to its end."""
    await filled(plane)
    if is_ended:
        with monkeypatch.context() as patch, pytest.raises(Died):
            dying(patch, 2, is_after=True)
            await reclaim(plane)
    others = []

    async def guarded(self, task, go=rounds.Round._guarded):
        if not others:
            others.append(True)
            if is_ended:
                await reclaim(plane)
            else:
                with monkeypatch.context() as patch, pytest.raises(Died):
                    dying(patch, 2, is_after=True)
                    await reclaim(plane)
        return await go(self, task)

    monkeypatch.setattr(rounds.Round, "_guarded", guarded)
    await reclaim(plane)
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.chosen_blocks, report.chosen_bytes) == (15, 15 * KIB)
    assert len(await served(plane, KEYS)) == 75
    plane.make_due()
    await plane.duties()
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.freed_blocks) == (RunState.DONE, 15)
    shards = shards_of(plane.mirror.current.instances["model-a"])
    assert not any(plane.client.hgetall(keyspace.evictions(shard.base)) for shard in shards)
    assert (await plane.recount()).drift == {}


@pytest.mark.redis_only
async def test_one_that_wakes_up_after_a_mark_leaves_the_record_alone(plane, monkeypatch):
    """The run is another's by then, was ended, and may be followed by the group's next one."""
    await filled(plane)
    monkeypatch.setattr(reclaim_hold, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(reclaim_work, "TELL_SECONDS", 0.0)
    original, others = reclaim_work.evict, []

    async def evict(index, *args, **options):
        found = await original(index, *args, **options)
        if not others:
            others.append(True)
            redis_of(plane).delete(keyspace.reclaim_lease(1))
            await reclaim(plane)
        return found

    monkeypatch.setattr(reclaim_work, "evict", evict)
    await reclaim(plane)
    assert redis_of(plane).hlen(keyspace.RECLAIM_OPEN) == 0
    (report,) = reports(plane)
    assert (report.state, report.chosen_blocks) == (RunState.DELETING, 15)
    assert troubles(plane) == {}


async def test_who_reads_the_book_takes_no_run_off_that_began_meanwhile(plane, monkeypatch):
    """Between the reading of open and of settling runs one moves, and the group's next one begins."""
    book = ReclaimBook(plane.index.connection)
    report = RunReport(
        "00000000000000aa", "default", Trigger.WATERMARK, RunState.CHOOSING, "lru", "group_lru"
    )
    first, second = OpenRun(report, 1), OpenRun(replace(report, id="00000000000000bb"), 1)
    await book.save(first)
    original = ReclaimBook._hash

    async def hash_(self: ReclaimBook, key: str):
        found = await original(self, key)
        if key == keyspace.RECLAIM_OPEN:
            await book.settle(first)
            await book.save(second)
        return found

    monkeypatch.setattr(ReclaimBook, "_hash", hash_)
    known = await ReclaimBook(plane.index.connection).read()
    assert (set(known.open), set(known.settling)) == (set(), {"00000000000000aa"})
    monkeypatch.undo()
    assert set((await book.read()).open) == {"00000000000000bb"}
    # One that died between both steps is at both places: its old one goes with the lease.
    await book.settle(second)
    await book.save(second)
    known = await book.read()
    await book.refresh(known, 1, "default")
    assert (known.open, redis_of(plane).hlen(keyspace.RECLAIM_OPEN)) == ({}, 0)


@pytest.mark.parametrize("step", ["report", "settle", "forget"])
async def test_an_end_is_told_though_its_teller_dies(plane, monkeypatch, step):
    await filled(plane)
    await reclaim(plane)
    plane.make_due()
    await plane.duties()
    original = getattr(ReclaimBook, step)

    async def dies(self, *args):
        await original(self, *args)
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(ReclaimBook, step, dies)
        await reclaim(plane)
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.chosen_blocks, report.freed_blocks) == (RunState.DONE, 15, 15)
    assert redis_of(plane).hlen(keyspace.RECLAIM_SETTLING) == 0


async def test_another_holds_the_group(plane, monkeypatch):
    await filled(plane)
    monkeypatch.setattr(reclaim_hold, "WAIT_SECONDS", 0.2)
    redis_of(plane).set(keyspace.reclaim_lease(1), "other", px=60_000)
    assert (await reclaim(plane)).marked == {}
    redis_of(plane).delete(keyspace.reclaim_lease(1))
    assert (await reclaim(plane)).marked_blocks == 15


@pytest.mark.redis_only
async def test_one_that_was_stopped_and_wakes_up_marks_nothing(plane, monkeypatch):
    """Its lease ran out, another went on: what it still wants to mark is refused."""
    await filled(plane)
    original, other = reclaim_work.evict, []

    async def evict(index, *args, **options):
        if not other:
            other.append(True)
            redis_of(plane).delete(keyspace.reclaim_lease(1))
            other.append(await reclaim(plane))
        return await original(index, *args, **options)

    monkeypatch.setattr(reclaim_work, "evict", evict)
    late = await reclaim(plane)
    assert other[1].marked_blocks == 15
    assert late.marked == {}
    assert len(await served(plane, KEYS)) == 75
    assert troubles(plane) == {}
