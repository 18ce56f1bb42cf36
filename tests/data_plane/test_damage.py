"""A server that drops single keys, by a foreign maxmemory-policy: nothing wrong is served, all is mended."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties.damage import DamageCheck
from kvcm_platform.index import damage, functions, keyspace
from kvcm_platform.index.damage import Damage
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage

BASE = keyspace.instance(0xABC, 0)
GROUP = keyspace.group(1)
SERVED = list(range(1, 601))
GOING = list(range(601, 641))
WRITING = list(range(641, 661))
KEYS = SERVED + GOING + WRITING
SIZE = 1024


async def look(plane: DataPlane) -> list[Damage]:
    """What a look says that comes in time after the one before."""
    plane.client.delete(keyspace.DAMAGE_LOOKED)
    return (await plane.duties()).damage


async def mended(plane: DataPlane) -> list[Damage]:
    """What two looks in a row found, the second of which mends."""
    first = await look(plane)
    return first + await look(plane)


async def filled(plane: DataPlane) -> str:
    """Blocks that are served, some that are deleted and some that are written; the id of their session."""
    for at in range(0, len(SERVED) + len(GOING), 160):
        await plane.write((SERVED + GOING)[at : at + 160])
    await plane.service.remove_cache("model-a", Blocks(GOING, ()), None)
    started = await plane.start(WRITING)
    await plane.index.pusher.flush()
    for due in plane.client.zrange(keyspace.pending_due(BASE), 0, -1):
        plane.client.zadd(keyspace.pending_due(BASE), {due: plane.index.now_ms() + 60_000})
    assert await look(plane) == await look(plane) == [], "a whole index misses nothing"
    return started.session_id


def shape(plane: DataPlane) -> dict[str, object]:
    """All that must be as it was, whatever was lost: but for what nobody can know any more."""
    client = plane.client
    return {
        "blocks": client.hgetall(keyspace.blocks(BASE)),
        "runs": client.hgetall(keyspace.runs(BASE)),
        "recency": set(client.zrange(keyspace.recency(BASE), 0, -1)),
        "pending": set(client.hkeys(keyspace.pending(BASE))),
        "due": set(client.zrange(keyspace.pending_due(BASE), 0, -1)),
        "sessions": client.hgetall(keyspace.sessions(BASE)),
        "deadlines": dict(client.zrange(keyspace.session_deadlines(BASE), 0, -1, withscores=True)),
        "usage": {name: value for name, value in client.hgetall(BASE).items() if name[:2] in (b"b:", b"n:")},
        "totals": {name: value for name, value in client.hgetall(GROUP).items() if int(value)},
    }


@pytest.mark.parametrize(
    ("suffix", "lost"),
    [
        (":n", ("runs",)),
        (":r", ("recency order",)),
        (":d", ("due times of deletions",)),
        (":p", ("pending deletions",)),
        (":wd", ("deadlines of write sessions",)),
        ("", ("usage",)),
    ],
)
async def test_a_lost_key_is_made_from_the_others(plane, suffix, lost):
    session = await filled(plane)
    before = shape(plane)
    assert plane.client.delete(BASE + suffix) == 1
    hits = len(await plane.match(SERVED))
    assert hits in (0, len(SERVED))
    (found,) = await mended(plane)
    assert (found.lost, found.blocks, found.trouble) == (lost, 0, "")
    assert found.mended_at is not None
    assert shape(plane) == before
    assert len(await plane.match(SERVED)) == len(SERVED)
    assert not (await plane.recount()).has_drift
    await plane.service.finish_write("model-a", session, len(WRITING))
    assert set(await plane.statuses(WRITING)) == {"SERVING"}
    assert await mended(plane) == []


async def test_lost_runs_and_recency_come_back_in_the_order_of_their_blocks(plane):
    await filled(plane)
    before = plane.client.hgetall(keyspace.runs(BASE))
    plane.client.delete(keyspace.runs(BASE), keyspace.recency(BASE))
    await mended(plane)
    assert plane.client.hgetall(keyspace.runs(BASE)) == before
    names = plane.client.zrange(keyspace.recency(BASE), 0, -1)
    assert set(names) == set(before)
    firsts = [int.from_bytes(before[name][:8]) for name in names]
    starts = [[first for first in firsts if begin < first <= begin + 160] for begin in range(0, 640, 160)]
    assert [sorted(start, reverse=True) for start in starts] == starts, "of one Start from its end"


async def test_lost_blocks_are_misses_and_their_bytes_are_free_again(plane):
    await filled(plane)
    assert len(await plane.match(SERVED)) == len(SERVED)
    plane.client.delete(keyspace.blocks(BASE))
    assert set(await plane.statuses(KEYS)) == {"NOT_FOUND"}
    (found,) = await mended(plane)
    assert (found.lost, found.blocks) == (("blocks",), len(KEYS))
    assert await plane.match(SERVED) == []
    count = await plane.recount()
    assert (count.used, count.has_drift) == (len(GOING) * SIZE, False), "but for what waits for its deletion"
    assert plane.client.hlen(keyspace.runs(BASE)) == plane.client.zcard(keyspace.recency(BASE)) == 0
    await plane.write(SERVED)
    assert len(await plane.match(SERVED)) == len(SERVED)
    plane.make_due()
    await plane.duties()
    assert (await plane.recount()).used == len(SERVED) * SIZE


async def test_blocks_that_were_lost_and_written_again_in_part_show_all_the_same(plane):
    await filled(plane)
    plane.client.delete(keyspace.blocks(BASE))
    await plane.write(SERVED[:100])
    (found,) = await mended(plane)
    assert found.lost == ("blocks",)
    assert not (await plane.recount()).has_drift
    assert len(await plane.match(SERVED)) == 100


async def until(reader: DataPlane, hits: int) -> None:
    """Search caches may be behind for a moment."""
    async with asyncio.timeout(10):
        while len(await reader.match(SERVED)) != hits:
            await asyncio.sleep(0.02)


async def test_runs_that_were_lost_with_their_recency_and_grew_again_show_in_time(plane):
    """No count tells: as many runs as members of the order, and none is missing a block."""
    await filled(plane)
    plane.client.delete(keyspace.runs(BASE), keyspace.recency(BASE))
    for key in range(5000, 5100):
        await plane.write([key])
    found: list[Damage] = []
    while not found:
        found = await mended(plane)
    assert "runs" in found[0].lost
    listed = b"".join(plane.client.hvals(keyspace.runs(BASE)))
    blocks = plane.client.hkeys(keyspace.blocks(BASE))
    assert sorted(listed[at : at + 8] for at in range(0, len(listed), 8)) == sorted(blocks)


async def test_search_caches_forget_what_is_gone(plane, empty_valkey):
    """They follow events, and a key that goes by itself has none: the mending makes up for it."""
    async with data_plane(empty_valkey.url, plane.client, is_strict=False) as reader:
        await plane.write(SERVED)
        assert len(await reader.match(SERVED)) == len(SERVED)
        assert reader.cache.counters.bytes > 0
        plane.client.delete(keyspace.blocks(BASE), keyspace.runs(BASE), keyspace.recency(BASE))
        await mended(plane)
        await until(reader, 0)


async def test_search_caches_go_on_where_the_epoch_was_lost(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client, is_strict=False) as reader:
        await plane.write(SERVED)
        assert len(await reader.match(SERVED)) == len(SERVED)
        plane.client.delete(BASE)
        await plane.service.remove_cache("model-a", Blocks(SERVED[100:], ()), None)
        await until(reader, 100)
        await mended(plane)
        assert len(await reader.match(SERVED)) == 100
        hits = reader.cache.counters.hit_chunks
        assert len(await reader.match(SERVED)) == 100
        assert reader.cache.counters.hit_chunks > hits, "it keeps blocks again"


async def test_what_a_lost_session_wrote_can_be_written_again(plane):
    session = await filled(plane)
    plane.client.delete(keyspace.sessions(BASE))
    (found,) = await mended(plane)
    assert found.lost == ("write sessions",)
    with pytest.raises(DomainError):
        await plane.service.finish_write("model-a", session, len(WRITING))
    assert set(await plane.statuses(WRITING)) == {"DELETING"}
    assert not (await plane.recount()).has_drift
    plane.make_due()
    await plane.duties()
    await plane.write(WRITING)
    assert set(await plane.statuses(WRITING)) == {"SERVING"}
    assert plane.client.zcard(keyspace.session_deadlines(BASE)) == 0


async def test_deletions_whose_list_was_lost_are_carried_out(plane):
    await filled(plane)
    plane.client.delete(keyspace.pending(BASE), keyspace.pending_due(BASE))
    await mended(plane)
    assert not (await plane.recount()).has_drift
    plane.make_due()
    await plane.duties()
    assert set(await plane.statuses(GOING)) == {"NOT_FOUND"}
    count = await plane.recount()
    assert (count.used, count.has_drift) == ((len(SERVED) + len(WRITING)) * SIZE, False)


@pytest.mark.parametrize("suffix", ["", ":v", ":x"])
async def test_what_a_group_counts_is_put_right(plane, suffix):
    await filled(plane)
    plane.client.execute_command(*reservation(plane))
    before = shape(plane)["totals"]
    held = plane.client.zrange(keyspace.group_reservation_deadlines(GROUP), 0, -1, withscores=True)
    assert plane.client.delete(GROUP + suffix) == 1
    await mended(plane)
    await mended(plane)
    assert shape(plane)["totals"] == before
    assert plane.client.hlen(keyspace.group_vectors(GROUP)) == 1
    name = keyspace.group_reservation_deadlines(GROUP)
    assert plane.client.zrange(name, 0, -1, withscores=True) == held


def reservation(plane: DataPlane) -> tuple[object, ...]:
    """A Start that is under way and holds 5000 bytes."""
    until = plane.index.now_ms() + 60_000
    return ("FCALL", functions.name("kvcm_reserve"), 1, GROUP, "s" * 32, until, 5000, 1, 4, "2748:0", 5000)


async def test_limits_that_were_lost_are_published_again(plane):
    before = plane.client.hgetall(keyspace.group_limits(GROUP))
    plane.client.delete(keyspace.group_limits(GROUP))
    with pytest.raises(DomainError):
        await plane.start([1])
    (found,) = await look(plane)
    assert (found.subject, found.lost) == ("Group default", ("limits of the group",))
    assert plane.client.hgetall(keyspace.group_limits(GROUP)) == before
    await plane.write([1])


async def test_a_look_at_many_groups_takes_no_more_turns_than_one_at_a_single_one(plane, monkeypatch):
    """And each of them is looked at."""
    turns = 0

    def counted(name):
        original = getattr(plane.index.connection, name)

        async def turn(*args, **options):
            nonlocal turns
            turns += 1
            return await original(*args, **options)

        monkeypatch.setattr(plane.index.connection, name, turn)

    counted("call")
    counted("pipeline")

    async def turns_of_a_look():
        nonlocal turns
        plane.client.delete(keyspace.DAMAGE_LOOKED)
        session = await plane.session()
        before = turns
        damages = await DamageCheck(session, time.monotonic() + 60).run()
        return turns - before, [(one.subject, one.lost) for one in damages]

    few, found = await turns_of_a_look()
    assert (few > 0, found) == (True, [])
    plane.publish(2, *(group(name=f"more-{number}", number=number) for number in range(2, 52)))
    assert await turns_of_a_look() == (few, [])
    for number in (2, 51):
        plane.client.delete(keyspace.group_limits(keyspace.group(number)))
    _, found = await turns_of_a_look()
    assert found == [(f"Group more-{number}", ("limits of the group",)) for number in (2, 51)]


async def test_a_shard_is_made_whole_while_it_is_written_to(plane):
    await filled(plane)
    plane.client.delete(keyspace.runs(BASE), keyspace.recency(BASE), BASE)
    is_over, written = asyncio.Event(), []

    async def write() -> None:
        first = 10_000
        while not is_over.is_set():
            keys = list(range(first, first + 20))
            await plane.write(keys)
            await plane.service.remove_cache("model-a", Blocks(keys[10:], ()), None)
            written.extend(keys[:10])
            first += 20

    writer = asyncio.create_task(write())
    await mended(plane)
    is_over.set()
    await writer
    await mended(plane)
    assert len(written) > 0
    assert not (await plane.recount()).has_drift
    listed = b"".join(plane.client.hvals(keyspace.runs(BASE)))
    blocks = plane.client.hkeys(keyspace.blocks(BASE))
    assert sorted(listed[at : at + 8] for at in range(0, len(listed), 8)) == sorted(blocks)
    runs = set(plane.client.hkeys(keyspace.runs(BASE)))
    assert runs == set(plane.client.zrange(keyspace.recency(BASE), 0, -1))


async def test_a_shard_that_cannot_be_mended_is_told_of_and_keeps_no_other(plane, monkeypatch):
    plane.publish(2, instance("model-b", 0xB))
    await plane.mirror.refresh()
    await plane.write(SERVED)
    await plane.write(SERVED, "model-b")
    for number in (0xABC, 0xB):
        plane.client.delete(keyspace.runs(keyspace.instance(number, 0)))
    original = damage.Mending.run

    async def run(mending, sequence):
        if mending._shard.instance_number == 0xABC:
            raise ValueError("a poisoned record")
        await original(mending, sequence)

    monkeypatch.setattr(damage.Mending, "run", run)
    await mended(plane)
    by_name = {one.subject: one for one in damage.damages(plane.client)}
    assert by_name["Instance model-a"].mended_at is None
    assert "a poisoned record" in by_name["Instance model-a"].sentence
    assert by_name["Instance model-b"].mended_at is not None
    monkeypatch.undo()
    await mended(plane)
    assert {one.mended_at is None for one in damage.damages(plane.client)} == {False}


async def test_blocks_with_several_locations_are_counted_once_and_then_trusted(plane, tmp_path):
    second = storage(tmp_path / "nfs", name="nfs_02", number=2)
    plane.publish(2, second, group(storage_candidates=("nfs_01", "nfs_02"), version=2))
    await plane.mirror.refresh()
    await plane.write(SERVED[:50], replicas=2)
    assert plane.client.hlen(keyspace.blocks(BASE)) == 50
    await mended(plane)
    assert await mended(plane) == []
    plane.client.delete(keyspace.blocks(BASE))
    (found,) = await mended(plane)
    assert found.lost == ("blocks",)


SUFFIXES = ("", ":b", ":n", ":r", ":d", ":p", ":w", ":wd", ":up", ":e", ":g", ":er")


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_goes_at_random_the_rest_fits_again(plane, seed):
    """Several keys at once, as under memory pressure, and traffic in between."""
    draw = random.Random(seed)
    session = await filled(plane)
    for at in range(3):
        for suffix in draw.sample(SUFFIXES, draw.randint(1, 5)):
            plane.client.delete(BASE + suffix)
        if draw.random() < 0.5:
            plane.client.delete(GROUP + draw.choice(["", ":v", ":r", ":x"]))
        await plane.match(SERVED)
        await plane.write(list(range(2000 + at * 100, 2060 + at * 100)))
        await plane.service.remove_cache("model-a", Blocks(draw.sample(SERVED, 50), ()), None)
        await mended(plane)
        await mended(plane)
        assert not (await plane.recount()).has_drift
        listed = b"".join(plane.client.hvals(keyspace.runs(BASE)))
        blocks = plane.client.hkeys(keyspace.blocks(BASE))
        assert sorted(listed[at : at + 8] for at in range(0, len(listed), 8)) == sorted(blocks)
        assert set(plane.client.hkeys(keyspace.runs(BASE))) == set(
            plane.client.zrange(keyspace.recency(BASE), 0, -1)
        )
    with suppress(DomainError):
        await plane.service.finish_write("model-a", session, len(WRITING))
    plane.make_due()
    await plane.duties()
    plane.make_due()
    await plane.duties()
    metas = set(await plane.statuses(KEYS))
    assert metas <= {"SERVING", "NOT_FOUND"}, "nothing is stuck"
