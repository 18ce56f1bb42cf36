"""Rounds of reclaim in which something goes wrong: deaths, takeovers, cancels, unreadable records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.runs import RunReport, RunState, Trigger
from kvcm_platform.core.registry import Quota
from kvcm_platform.duties import reclaim as rounds
from kvcm_platform.duties import reclaim_hold, reclaim_work
from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import pack_keys, unpack_keys
from kvcm_platform.index.reclaim_book import ReclaimBook
from kvcm_platform.index.shards import shards_of
from tests.support.data_plane import DataPlane, group, instance
from tests.support.reclaims import KIB, age, ask, limited, reclaim, redis_of, reports, served

CHAINS = [list(range(at, at + 10)) for at in range(1, 100, 10)]
KEYS = list(range(1, 91))


class Died(BaseException):
    """Stands for kill -9."""


async def filled(plane: DataPlane, **settings) -> None:
    """Nine chains of ten blocks, of which 15 blocks have to go, in steps of 4."""
    plane.publish(2, limited(100, 0.8, step_size=4, **settings))
    for keys in CHAINS[:9]:
        await plane.write(keys)
    age(plane, CHAINS)


def troubles(plane: DataPlane) -> dict[str, dict[str, object]]:
    raw = redis_of(plane).hgetall(keyspace.RECLAIM_TROUBLES)
    return {name.decode(): json.loads(value) for name, value in raw.items()}


def dying(monkeypatch, calls: int, *, is_after: bool) -> None:
    """The process dies in the n-th call that marks blocks, before or after it took effect."""
    original, made = reclaim_work.evict, 0

    async def evict(*args, **options):
        nonlocal made
        made += 1
        if made == calls and not is_after:
            raise Died
        found = await original(*args, **options)
        if made == calls:
            raise Died
        return found

    monkeypatch.setattr(reclaim_work, "evict", evict)


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


async def test_a_group_whose_usage_makes_no_sense_holds_up_no_other(plane):
    await filled(plane)
    plane.publish(3, group(name="other", number=2), instance("other", 0xB, group="other", group_number=2))
    redis_of(plane).hset(keyspace.group_vectors(keyspace.group(2)), "11:0", b"\xc1")
    assert (await reclaim(plane)).marked == {"default": [15, 15 * KIB]}


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


async def test_a_run_that_is_cancelled_keeps_to_what_it_marked(plane, monkeypatch):
    await filled(plane)
    original = reclaim_work.evict

    async def evict(*args, **options):
        found = await original(*args, **options)
        redis_of(plane).sadd(keyspace.RECLAIM_CANCELS, options["run_id"].hex())
        return found

    ask(plane, blocks=50)
    plane.publish(3, limited(1000, step_size=4))
    monkeypatch.setattr(reclaim_work, "evict", evict)
    marked = (await reclaim(plane)).marked_blocks
    assert 0 < marked <= 4
    (report,) = reports(plane)
    assert (report.state, report.stop) == (RunState.DELETING, "cancelled")
    plane.make_due()
    await plane.duties()
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.freed_blocks) == (RunState.CANCELLED, marked)
    assert redis_of(plane).scard(keyspace.RECLAIM_CANCELS) == 0


async def test_a_group_that_fails_is_noted_and_keeps_nobody_waiting(plane, monkeypatch):
    other = group(name="other", number=2, quota=Quota(5 * KIB))
    plane.publish(2, limited(100, 0.8), other, instance("model-b", 0xB, group="other", group_number=2))
    for keys in CHAINS[:9]:
        await plane.write(keys)
    await plane.session()
    await plane.write(CHAINS[0][:5], "model-b")
    original = rounds.demands

    def demands(registry, entry, *args, **options):
        if entry.name == "other":
            raise ZeroDivisionError("a policy that throws")
        return original(registry, entry, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(rounds, "demands", demands)
        summary = await reclaim(plane)
        first = troubles(plane)
        await reclaim(plane)
        assert troubles(plane) == first, "since when it fails"
    assert (summary.marked, summary.failures) == ({"default": [15, 15 * KIB]}, 1)
    assert first["other"]["reason"] == "ZeroDivisionError: a policy that throws"
    assert (await reclaim(plane)).marked == {"other": [2, 2 * KIB]}
    assert troubles(plane) == {}


async def test_a_run_that_fails_again_and_again_is_ended(plane, monkeypatch):
    await filled(plane)
    ask(plane, blocks=30)
    plane.publish(3, limited(1000))

    async def evict(*args, **options):
        raise ZeroDivisionError("a policy that throws")

    with monkeypatch.context() as patch:
        patch.setattr(reclaim_work, "evict", evict)
        for _ in range(rounds.MOST_ERRORS):
            assert (await reclaim(plane)).failures == 1
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.stop) == (RunState.FAILED, "errors")
    assert "a policy that throws" in report.detail
    assert troubles(plane) == {}


async def test_a_run_that_failed_now_and_then_goes_on(plane, monkeypatch):
    await filled(plane)

    async def evict(*args, **options):
        raise ZeroDivisionError("a policy that throws")

    with monkeypatch.context() as patch:
        patch.setattr(reclaim_work, "evict", evict)
        for _ in range(rounds.MOST_ERRORS - 1):
            await reclaim(plane)
    (report,) = reports(plane)
    assert "a policy that throws" in report.detail
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.chosen_blocks, report.stop, report.detail) == (15, "enough", "")


async def test_a_record_that_cannot_be_read_is_named_and_the_others_go(plane):
    await filled(plane)
    entry = plane.mirror.current.instances["model-a"]
    base, run = next(
        (keyspace.instance(entry.number, shard), run)
        for shard in range(entry.shards)
        for run, blob in plane.client.hgetall(keyspace.runs(keyspace.instance(entry.number, shard))).items()
        if CHAINS[0][0] in unpack_keys(blob)
    )
    key = unpack_keys(plane.client.hget(keyspace.runs(base), run))[0]
    whole = plane.client.hget(keyspace.blocks(base), pack_keys([key]))
    plane.client.hset(keyspace.blocks(base), pack_keys([key]), whole[:50])
    summary = await reclaim(plane)
    assert (summary.marked_blocks, summary.failures) == (15, 1)
    reason = troubles(plane)["default"]["reason"]
    assert "blocks of instance model-a cannot be read" in str(reason)
    # With nothing to be reclaimed it shows as long as it is there.
    assert (await reclaim(plane)).failures == 1
    assert troubles(plane)["default"]["reason"] == reason
    plane.client.hset(keyspace.blocks(base), pack_keys([key]), whole)
    assert (await reclaim(plane)).failures == 0
    assert troubles(plane) == {}


async def test_a_group_that_is_removed_ends_its_run(plane, monkeypatch):
    await filled(plane)
    with monkeypatch.context() as patch:
        dying(patch, 2, is_after=True)
        with pytest.raises(Died):
            await reclaim(plane)
    plane.publish(3, removed=[("group", "default")])
    await plane.session()
    await reclaim(plane)
    (report,) = reports(plane)
    assert (report.state, report.stop) == (RunState.DELETING, "gone")
    plane.make_due()
    await plane.duties()
    await reclaim(plane)
    (report,) = reports(plane)
    assert report.state is RunState.DONE
    assert report.chosen_blocks == report.freed_blocks > 0


async def test_a_group_that_is_removed_has_no_trouble_any_more(plane, monkeypatch):
    await filled(plane)
    await reclaim(plane)  # which notes when the last run by the marks began
    redis_of(plane).hset(
        keyspace.RECLAIM_TROUBLES, "default", json.dumps({"since": 1, "reason": "it cannot be read"})
    )
    plane.publish(3, removed=[("group", "default")])
    await plane.session()
    await reclaim(plane)
    assert troubles(plane) == {}
    assert redis_of(plane).hlen(keyspace.RECLAIM_LAST) == 0


async def test_the_time_of_a_round_is_kept(plane):
    await filled(plane)
    summary = await reclaim(plane, seconds=0.0)
    assert summary.is_unfinished
    assert (await reclaim(plane)).marked_blocks == 15
