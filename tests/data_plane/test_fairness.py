"""Limits of instance groups: what passes follows from the bucket's arithmetic, over two processes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
import redis

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.metadata import MetadataService
from kvcm_platform.core.registry import FairnessLimits, Quota, group_from_dict, to_dict
from kvcm_platform.core.use_cases import Blocks, Limits
from kvcm_platform.index import keyspace, leaving
from tests.support.data_plane import DataPlane, data_plane, group, instance, storage
from tests.support.valkey import ValkeyServer

PROCESSES = 2
OTHER = instance("other", 0xDEF, group="other", group_number=2)


@pytest_asyncio.fixture
async def planes(empty_valkey: ValkeyServer, client: redis.Redis, tmp_path) -> AsyncIterator[list[DataPlane]]:
    """Two processes; groups `default` (of `model-a`) and `other` (of `other`) without limits yet."""
    entries = (storage(tmp_path / "nfs"), group(), group(name="other", number=2), instance(), OTHER)
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                data_plane(empty_valkey.url, client, *entries, limits=Limits(max_sessions=20))
            )
            for _ in range(PROCESSES)
        ]


async def limit(planes: list[DataPlane], version: int = 2, **limits: float) -> None:
    planes[0].publish(version, group(limits=FairnessLimits(**limits)))
    for plane in planes:
        await plane.mirror.refresh()


async def refused(work) -> str:
    with pytest.raises(DomainError) as caught:
        await work
    assert caught.value.code is Code.TOO_MANY
    return caught.value.message


def server_seconds(plane: DataPlane) -> float:
    seconds, microseconds = plane.client.time()
    return seconds + microseconds / 1e6


async def flood(
    planes: list[DataPlane], seconds: float, call: Callable[[MetadataService], object]
) -> tuple[int, int, float]:
    """Calls as fast as they go, four at a time a process: allowed, refused, seconds by the server's clock."""
    counts = [0, 0]
    until = time.monotonic() + seconds

    async def one(plane: DataPlane) -> None:
        while time.monotonic() < until:
            try:
                await call(plane.service)
            except DomainError as error:
                # A server that stalls is NOT_READY for a moment.
                assert error.code in (Code.TOO_MANY, Code.NOT_READY), error
                counts[1] += error.code is Code.TOO_MANY
                await asyncio.sleep(0.001)
            else:
                counts[0] += 1

    began = server_seconds(planes[0])
    await asyncio.gather(*(one(plane) for plane in planes for _ in range(4)))
    return counts[0], counts[1], server_seconds(planes[0]) - began


def match(keys: list[int], instance_id: str = "model-a"):
    return lambda service: service.get_cache_location(instance_id, 2, Blocks(keys, ()), None, 0, ())


@pytest.mark.parametrize("rate", [3, 200, 2000])
async def test_calls_a_second_over_two_processes(planes: list[DataPlane], rate: int) -> None:
    await limit(planes, calls_per_second=rate)
    allowed, turned_away, seconds = await flood(planes, 2.0, match([1]))
    burst, batch = max(1, rate / 10), max(1, rate / 50)
    assert allowed <= rate * seconds + burst + PROCESSES * batch
    assert allowed >= min(rate, 100) * 0.5  # a limit, not a wall
    if rate <= 200:
        assert turned_away > 0


async def test_blocks_a_second_over_two_processes(planes: list[DataPlane]) -> None:
    await limit(planes, blocks_per_second=5000)
    keys = list(range(40))
    allowed, turned_away, seconds = await flood(planes, 2.0, match(keys))
    assert allowed * 40 <= 5000 * seconds + 500 + PROCESSES * 100 + 40
    assert allowed * 40 >= 2500
    assert turned_away > 0


async def test_a_refusal_names_the_group_and_the_limit(planes: list[DataPlane]) -> None:
    await limit(planes, calls_per_second=1)
    call = match([1])
    await call(planes[0].service)
    assert await refused(call(planes[0].service)) == (
        "group default: its limit of 1 calls_per_second is used up"
    )
    assert "1 calls_per_second" in await refused(call(planes[1].service)), "the other process knows"
    await limit(planes, 3, blocks_per_second=10)
    await call(planes[0].service)


async def test_a_call_larger_than_the_bucket_passes_and_is_paid_for(planes: list[DataPlane]) -> None:
    await limit(planes, blocks_per_second=1000)
    tokens = Blocks((), list(range(4 * 900)))  # 900 blocks, nine times what the bucket holds

    def start(plane: DataPlane):
        return plane.service.start_write("model-a", tokens, (), 30)

    began = server_seconds(planes[0])
    await start(planes[0])
    for plane in planes:
        assert "1000 blocks_per_second" in await refused(match([1])(plane.service))
    while True:
        try:
            await match([1])(planes[1].service)
            break
        except DomainError:
            await asyncio.sleep(0.01)
    # 100 were there, 800 are owed, and one has to come.
    assert server_seconds(planes[0]) - began >= 0.8


async def test_what_gives_back_is_never_refused(planes: list[DataPlane]) -> None:
    plane = planes[0]
    await limit(planes, calls_per_second=1, blocks_per_second=2)
    started = await plane.start([1, 2])
    await refused(match([1])(plane.service))
    await plane.finish(started, 2)
    await plane.service.remove_cache("model-a", Blocks([1], ()), None)
    await plane.service.trim_cache("model-a", 1, 0, 0)


async def test_refused_calls_do_not_ask_redis_and_neither_do_unlimited_groups(
    planes: list[DataPlane],
) -> None:
    plane = planes[0]
    asked = []
    call = plane.index.connection.call

    async def counted(*command, **options):
        asked.append(command[1] if command[0] == "FCALL" else command[0])
        return await call(*command, **options)

    plane.index.connection.call = counted
    await limit(planes, calls_per_second=2)
    for _ in range(2):
        try:
            await match([1])(plane.service)
        except DomainError:
            break
    before = asked.count("kvcm_permits")
    for _ in range(50):
        await match([1], "other")(plane.service)
        try:
            await match([1])(plane.service)
        except DomainError:
            continue
    # A permit of two a second comes every half second; fifty calls take far less.
    assert asked.count("kvcm_permits") - before <= 3


async def test_a_match_answered_at_once_takes_permits_too(empty_valkey: ValkeyServer, tmp_path) -> None:
    client, keys = empty_valkey.client(), list(range(1, 129))
    entries = (storage(tmp_path / "nfs"), group(), instance())
    async with data_plane(empty_valkey.url, client, *entries, is_strict=False) as plane:
        await check_matches_at_once(plane, keys)


async def check_matches_at_once(plane: DataPlane, keys: list[int]) -> None:
    raw = b"".join(key.to_bytes(8, sys.byteorder, signed=True) for key in keys)
    await plane.write(keys)
    await match(keys)(plane.service)
    await plane.cache.refresh_active()
    assert plane.service.prefix_at_once("model-a", raw, 0), "it is all in memory"
    await limit([plane], calls_per_second=50, blocks_per_second=100_000)
    found = allowed = 0
    began = server_seconds(plane)
    for _ in range(60):
        await plane.cache.refresh_active()
        if plane.service.prefix_at_once("model-a", raw, 0):
            found += 1
            continue
        try:
            await match(keys)(plane.service)
            allowed += 1
        except DomainError:
            pass
    # One process held no permits to begin with: the first call has to ask for them.
    assert allowed >= 1
    assert found + allowed <= 50 * (server_seconds(plane) - began) + 5 + 1


async def test_write_sessions_of_a_group(planes: list[DataPlane]) -> None:
    """A quarter of twenty: five sessions over both processes and both instances of the group."""
    second = instance("second", 0x777)
    planes[0].publish(2, second)
    await limit(planes, 3, write_session_ratio=0.25)
    opened = [await planes[at % 2].start([at], ("model-a", "second")[at % 2]) for at in range(5)]
    message = await refused(planes[0].start([9]))
    assert message == "group default: 5 write sessions are open (write_session_ratio 0.25)"
    await refused(planes[1].start([9], "second"))
    await planes[0].start([9], "other")
    await planes[1].finish(opened[0], 1)
    again = await planes[0].start([10])
    await refused(planes[1].start([11]))
    # One that is refused for another reason gives its place back; so does one that expires.
    await planes[0].finish(again, 1)
    with pytest.raises(DomainError) as caught:
        await planes[0].service.start_write("model-a", Blocks([12], ()), (), 30, 65)
    assert caught.value.code is Code.INVALID_ARGUMENT
    await planes[0].start([13], timeout=1)
    await refused(planes[0].start([14]))
    deadline = time.monotonic() + 40
    while True:
        try:
            await planes[0].start([14])
            break
        except DomainError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("spread", [1, 3])
async def test_places_end_with_the_instance_that_held_them(planes: list[DataPlane], spread: int) -> None:
    plane, gone = planes[0], instance("gone", 0x666, shards=spread)
    plane.publish(2, gone)
    await limit(planes, 3, write_session_ratio=0.1)
    for key in (1, 2):
        await plane.start([key], "gone", timeout=3600)
    await refused(plane.start([3]))
    plane.client.execute_command(*leaving.leave_command(gone))
    plane.publish(4, removed=[("instance", "gone")])
    await plane.mirror.refresh()
    await plane.duties()
    assert plane.client.zcard(keyspace.group_sessions(keyspace.group(1))) == 0
    await plane.start([3])


async def test_a_start_refused_by_the_quota_holds_no_place(planes: list[DataPlane]) -> None:
    limits = FairnessLimits(write_session_ratio=0.05)
    planes[0].publish(2, group(quota=Quota(2048), limits=limits))
    await planes[0].mirror.refresh()
    for _ in range(3):
        with pytest.raises(DomainError) as caught:
            await planes[0].start([1, 2, 3])
        assert caught.value.code is Code.CAPACITY
    await planes[0].start([1])


async def test_what_was_allowed_and_refused_is_counted(planes: list[DataPlane]) -> None:
    plane = planes[0]
    await limit(planes, blocks_per_second=1, write_session_ratio=0.05)
    await plane.start([1, 2, 3])
    await refused(match([4, 5])(plane.service))
    await limit(planes, 3, write_session_ratio=0.05)
    await refused(plane.start([6]))
    for command in plane.facts.take():
        plane.client.execute_command(*command)
    totals = {k.decode(): int(v) for k, v in plane.client.hgetall(keyspace.GROUP_COUNTERS).items()}
    assert totals == {
        "default|allowed_calls": 1,
        "default|allowed_blocks": 3,
        "default|refused_calls": 1,
        "default|refused_blocks": 2,
        "default|refused_sessions": 1,
    }


def test_entries_from_before_there_were_limits() -> None:
    data = to_dict(group())
    del data["limits"]
    assert group_from_dict(data) == group()
    limited = group(limits=FairnessLimits(5, 6, 0.5))
    assert group_from_dict(to_dict(limited)) == limited
