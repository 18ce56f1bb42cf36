"""An instance over several shards: one ticket decides, and a crash between any two calls is repaired."""

from __future__ import annotations

import asyncio
import random
import tracemalloc

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import MetaIndexerSettings
from kvcm_platform.core.use_cases import Limits
from kvcm_platform.index import keyspace, shards
from tests.support.data_plane import DataPlane, data_plane, found, group, instance

KEYS = list(range(1, 1301))
SHARDS = 3
BASES = [keyspace.instance(0xABC, shard) for shard in range(SHARDS)]
GROUP = keyspace.group(1)


@pytest.fixture
async def plane(plane: DataPlane) -> DataPlane:
    plane.publish(2, instance(shards=SHARDS))
    await plane.mirror.refresh()
    return plane


class Died(Exception):
    """Stands for kill -9: nothing after this line runs."""


def die_at(plane: DataPlane, monkeypatch, call: int, *, after: bool) -> list[str]:
    """The process dies at its n-th changing call, before or after it took effect; its calls are listed."""
    original, made = plane.index.connection.call, []

    async def dying(*command, **options):
        if len(made) >= call:
            raise Died
        if command[0] != "FCALL":
            return await original(*command, **options)
        made.append(command[1])
        if len(made) == call:
            if after:
                await original(*command, **options)
            raise Died
        return await original(*command, **options)

    monkeypatch.setattr(plane.index.connection, "call", dying)
    return made


def pass_time(plane: DataPlane) -> None:
    """Every deadline of the instance and its group lies in the past."""
    client = plane.client
    for base in BASES:
        for session in client.zrange(keyspace.session_deadlines(base), 0, -1):
            header = client.hget(keyspace.sessions(base), session)
            past = header[:1] + (1).to_bytes(6) + (1).to_bytes(6) + header[13:]
            client.hset(keyspace.sessions(base), session, past)
            client.zadd(keyspace.session_deadlines(base), {session: 1})
    for session in client.zrange(keyspace.ticket_deadlines(BASES[0]), 0, -1):
        header = client.hget(keyspace.tickets(BASES[0]), session)
        client.hset(keyspace.tickets(BASES[0]), session, header[:1] + (1).to_bytes(6) + header[7:])
        client.zadd(keyspace.ticket_deadlines(BASES[0]), {session: 1})
    for field in client.zrange(keyspace.group_reservation_deadlines(GROUP), 0, -1):
        client.zadd(keyspace.group_reservation_deadlines(GROUP), {field: 1})


async def settle(plane: DataPlane) -> None:
    for _ in range(3):
        pass_time(plane)
        plane.make_due()
        await plane.duties()
    for base in BASES:
        assert plane.client.hlen(keyspace.sessions(base)) == plane.client.hlen(keyspace.tickets(base)) == 0


def test_keys_spread_evenly_and_the_same_everywhere():
    consecutive = shards.by_shard(range(1 << 40, (1 << 40) + 10_000), 7)
    assert sorted(consecutive) == list(range(7))
    assert all(1200 < len(part) < 1650 for part in consecutive.values())
    # Pinned: blocks that were written must be found by every later version.
    assert shards.of_keys([0, 1, -1, 2**63 - 1, -(2**63)], 16).tolist() == [0, 9, 6, 6, 0]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(1, 9))
async def test_start_dies(plane, empty_valkey, monkeypatch, call, after):
    async with data_plane(empty_valkey.url, plane.client) as doomed:
        made = die_at(doomed, monkeypatch, call, after=after)
        try:
            await doomed.start(KEYS)
        except Died:
            assert len(made) == call
        else:
            assert made[0] == "kvcm_reserve" and "kvcm_write" in made
    await settle(plane)
    assert set(await plane.statuses(KEYS)) == {"NOT_FOUND"}
    count = await plane.recount()
    assert (count.used, count.reserved, count.has_drift) == (0, 0, False)
    assert plane.client.hlen(keyspace.slot_files(keyspace.storage(1))) == 0
    assert len((await plane.write(KEYS)).locations) == len(KEYS)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(1, 6))
async def test_finish_dies(plane, empty_valkey, monkeypatch, call, after):
    """Once the ticket has decided, every shard follows; before that the session fails as a whole."""
    mask = [key % 3 != 0 for key in KEYS]
    async with data_plane(empty_valkey.url, plane.client) as doomed:
        started = await doomed.start(KEYS)
        made = die_at(doomed, monkeypatch, call, after=after)
        with pytest.raises(Died):
            await doomed.finish(started, mask)
    is_decided = len(made) > 1 or after
    assert made[0] == "kvcm_ticket_decide"
    await settle(plane)
    expected = ["SERVING" if success and is_decided else "NOT_FOUND" for success in mask]
    assert await plane.statuses(KEYS) == expected
    count = await plane.recount()
    assert (count.used, count.has_drift) == (sum(mask) * 1024 * is_decided, False)


async def test_a_finish_in_flight_and_the_sweeper_agree(plane, empty_valkey, monkeypatch):
    """The deadline passes while a decided Finish is carried out: the sweeper carries the same verdict out."""
    started = await plane.start(KEYS)
    async with data_plane(empty_valkey.url, plane.client) as slow:
        original, go_on, is_decided = slow.index.function, asyncio.Event(), asyncio.Event()

        async def paused(name, *args):
            reply = await original(name, *args)
            if name == "kvcm_ticket_decide":
                is_decided.set()
                await go_on.wait()
            return reply

        monkeypatch.setattr(slow.index, "function", paused)
        finishing = asyncio.create_task(slow.finish(started, len(KEYS)))
        await is_decided.wait()
        pass_time(plane)
        await plane.duties()
        assert len(await plane.match(KEYS)) == len(KEYS)
        go_on.set()
        await finishing
    assert not (await plane.recount()).has_drift


async def test_racing_starts_share_the_keys_between_them(plane, empty_valkey):
    """Lost races lie in different shards; each Finish mask fits what its own Start was given."""
    async with data_plane(empty_valkey.url, plane.client) as other:
        prompts = [list(range(begin, begin + 700)) for begin in (1, 1, 200, 400, 1)]
        planes = [plane, other, plane, other, other]
        starts = await asyncio.gather(*(p.start(keys) for p, keys in zip(planes, prompts, strict=True)))
        placed = [found(wire).uri for started in starts for wire in started.locations]
        assert len(placed) == len(set(placed)) == 1099
        flags = random.Random(7)
        masks = [[flags.random() < 0.5 for _ in started.locations] for started in starts]
        await asyncio.gather(*(p.finish(s, m) for p, s, m in zip(planes, starts, masks, strict=True)))
        written = {
            found(wire).uri
            for started, mask in zip(starts, masks, strict=True)
            for wire, success in zip(started.locations, mask, strict=True)
            if success
        }
        answers = await plane.match(list(range(1, 1100)), 1)
        assert {one.uri for one in answers if one.uri} == written
        await other.index.pusher.flush()
    plane.make_due()
    await plane.duties()
    count = await plane.recount()
    assert (count.used, count.reserved, count.has_drift) == (len(written) * 1024, 0, False)


async def test_a_mask_that_does_not_fit_leaves_the_session_open(plane):
    started = await plane.start(KEYS)
    for wrong in (len(KEYS) + 1, [True], None):
        with pytest.raises(DomainError) as caught:
            await plane.finish(started, wrong)
        assert caught.value.code is Code.INVALID_ARGUMENT
    await plane.finish(started, len(KEYS))
    with pytest.raises(DomainError) as caught:
        await plane.finish(started, len(KEYS))
    assert (caught.value.code, caught.value.message) == (Code.INTERNAL, "write_session_id has been deleted")


async def test_an_offset_far_past_the_locations_costs_nothing(plane):
    started = await plane.start([1, 2])
    tracemalloc.start()
    with pytest.raises(DomainError) as caught:
        await plane.finish(started, 2**31 - 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert peak < 1 << 20


async def test_max_key_count_is_never_passed_however_many_start_at_once(plane, empty_valkey):
    plane.publish(3, group(meta_indexer=MetaIndexerSettings(max_key_count=100)))
    await plane.mirror.refresh()
    async with data_plane(empty_valkey.url, plane.client) as other:
        calls = [
            (plane, other)[number % 2].start(list(range(number * 10, number * 10 + 10)))
            for number in range(60)
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in results if isinstance(one, BaseException)]
    assert all(isinstance(one, DomainError) and one.code is Code.CAPACITY for one in refused)
    assert sum(plane.client.hlen(keyspace.blocks(base)) for base in BASES) <= 100
    # One after another they fit exactly; what is there already needs no room.
    await plane.service.trim_cache("model-a", 1, 0, 0)
    plane.make_due()
    await plane.duties()
    await plane.write(list(range(1000, 1100)))
    assert (await plane.start(list(range(1000, 1100)))).mask == 100
    with pytest.raises(DomainError):
        await plane.start([5000])
    await settle(plane)
    assert plane.client.hlen(keyspace.tickets(BASES[0])) == 0


async def test_a_refused_start_gives_everything_back(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client, limits=Limits(max_sessions=1)) as small:
        first = await small.start(KEYS)
        with pytest.raises(DomainError) as caught:
            await small.start([5000, 5001, 5002])
        assert caught.value.code is Code.TOO_MANY
        await small.finish(first, len(KEYS))
        await small.write([5000, 5001, 5002])
    await plane.duties()
    count = await plane.recount()
    assert (count.used, count.reserved) == ((len(KEYS) + 3) * 1024, 0)


async def test_a_match_keeps_the_runs_of_every_shard_young(plane):
    await plane.write(KEYS)
    names = [keyspace.recency(base) for base in BASES]
    before = [dict(plane.client.zrange(name, 0, -1, withscores=True)) for name in names]
    await asyncio.sleep(0.01)
    await plane.match(KEYS)
    await plane.index.recency.flush()
    after = [dict(plane.client.zrange(name, 0, -1, withscores=True)) for name in names]
    assert all(before)
    assert all(new[run] > old[run] for old, new in zip(before, after, strict=True) for run in old)
