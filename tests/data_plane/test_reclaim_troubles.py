"""Rounds of reclaim in which something goes wrong: cancels, unreadable records, policies that throw."""

from __future__ import annotations

import json

import pytest

from kvcm_platform.core.reclaim.runs import RunState
from kvcm_platform.core.registry import Quota
from kvcm_platform.duties import reclaim as rounds
from kvcm_platform.duties import reclaim_work
from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import pack_keys, unpack_keys
from kvcm_platform.index.reclaim_book import ReclaimBook
from tests.support.data_plane import DataPlane, group, instance
from tests.support.reclaims import KIB, Died, age, ask, dying, limited, reclaim, redis_of, reports, served

CHAINS = [list(range(at, at + 10)) for at in range(1, 100, 10)]
KEYS = list(range(1, 91))


async def filled(plane: DataPlane, **settings) -> None:
    """Nine chains of ten blocks, of which 15 blocks have to go, in steps of 4."""
    plane.publish(2, limited(100, 0.8, step_size=4, **settings))
    for keys in CHAINS[:9]:
        await plane.write(keys)
    age(plane, CHAINS)


def troubles(plane: DataPlane) -> dict[str, dict[str, object]]:
    raw = redis_of(plane).hgetall(keyspace.RECLAIM_TROUBLES)
    return {name.decode(): json.loads(value) for name, value in raw.items()}


@pytest.mark.parametrize(
    "silly",
    [
        *({"percent": float("inf")}, {"percent": float("nan")}, {"percent": -3.0}, {"percent": 1e308}),
        *({"bytes": -5}, {"bytes": "x"}, {"blocks": 0.5}, {"blocks": 1 << 70}, {"idle_seconds": -9}),
    ],
    ids=str,
)
async def test_a_request_that_makes_no_sense_stands_in_nobodys_way(plane, silly):
    await filled(plane)
    ask(plane, "00000000000000bb", **silly)
    ask(plane, "no id at all", blocks=1)
    ask(plane, "00000000000000aa", blocks=17)
    assert (await reclaim(plane)).failures == 0
    assert len(await served(plane, KEYS)) == 90 - 15 - 17
    assert redis_of(plane).hlen(keyspace.RECLAIM_REQUESTS) == 0
    assert troubles(plane) == {}


async def test_a_group_whose_usage_makes_no_sense_holds_up_no_other(plane):
    await filled(plane)
    plane.publish(3, group(name="other", number=2), instance("other", 0xB, group="other", group_number=2))
    redis_of(plane).hset(keyspace.group_vectors(keyspace.group(2)), "11:0", b"\xc1")
    assert (await reclaim(plane)).marked == {"default": [15, 15 * KIB]}


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


@pytest.mark.parametrize("name", ["1:marks", "soon"])
async def test_a_time_that_is_none_holds_nothing_up(plane, monkeypatch, name):
    """Neither where the book is read nor where a group's part is read again."""
    await filled(plane)
    redis = redis_of(plane)
    redis.hset(keyspace.RECLAIM_LAST, name, "soon")
    read = ReclaimBook.read

    async def then_junk(self):
        book = await read(self)
        assert redis.hget(keyspace.RECLAIM_LAST, name) is None, "it was taken out"
        redis.hset(keyspace.RECLAIM_LAST, name, "again")
        return book

    monkeypatch.setattr(ReclaimBook, "read", then_junk)
    assert (await reclaim(plane)).marked_blocks == 15
    assert troubles(plane) == {}


async def test_the_time_of_a_round_is_kept(plane):
    await filled(plane)
    summary = await reclaim(plane, seconds=0.0)
    assert summary.is_unfinished
    assert (await reclaim(plane)).marked_blocks == 15
