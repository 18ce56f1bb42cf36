"""Quotas and high marks in the index: what counts, what is never passed, and who is told of a mark."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from secrets import token_hex

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.reclaim.marks import ReclaimUsage, Scope, Subject
from kvcm_platform.core.registry import MetaIndexerSettings, Quota, ReclaimSettings
from kvcm_platform.core.types import WIRE_STORAGE_TYPE, Retention, StorageType
from kvcm_platform.index import keyspace, waking
from kvcm_platform.index.held_bytes import read_usage
from kvcm_platform.index.shards import shards_of
from tests.support.copies import FAST, SLOW, tiers
from tests.support.data_plane import DataPlane, group

BLOCK, GROUP, INSTANCE = 1024, 1, 0xABC
NFS = WIRE_STORAGE_TYPE[StorageType.NFS]


async def usage_of(plane: DataPlane) -> ReclaimUsage:
    await plane.index.pusher.flush()
    return await read_usage(plane.index.connection, [GROUP])


async def reserve(plane: DataPlane, size: int) -> list[bytes | int]:
    """What a Start does first; nothing is inserted after it."""
    command = (
        "FCALL",
        "kvcm_reserve",
        1,
        keyspace.group(GROUP),
        token_hex(16),
        plane.index.now_ms() + 60_000,
    )
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


async def apply(plane: DataPlane, version: int, *entries) -> None:
    plane.publish(version, *entries)
    await plane.mirror.refresh()
    if hasattr(plane.index, "follow_limits"):
        plane.index.follow_limits()


def limited(quota: Quota, keys: int = 10_000, **reclaim) -> object:
    return group(
        quota=quota,
        reclaim=ReclaimSettings(delay_before_delete_ms=0, **reclaim),
        meta_indexer=MetaIndexerSettings(max_key_count=keys),
    )


async def wakes(plane: DataPlane) -> list[str]:
    """Reasons of the wakes since the last look, after what a process does every 50 ms."""
    await plane.index.pusher.flush()
    found = [fields[b"reason"].decode() for _, fields in plane.client.xrange(keyspace.WAKE)]
    plane.client.delete(keyspace.WAKE)
    return found


@pytest.fixture
def every_wake(monkeypatch) -> None:
    """No wake is held back because there was one a moment ago."""
    monkeypatch.setattr(waking, "MARK_SECONDS", 0.0)
    monkeypatch.setattr(waking, "REFUSED_SECONDS", 0.0)


async def refused(call, code: Code = Code.CAPACITY) -> None:
    with pytest.raises(DomainError) as caught:
        await call
    assert caught.value.code is code


@pytest.mark.usefixtures("every_wake")
async def test_a_start_that_comes_to_the_mark_wakes(plane: DataPlane) -> None:
    """80 % of 10 KiB are 8 KiB: the eighth block is the first to wake, also before it is finished."""
    await apply(plane, 2, limited(Quota(10 * BLOCK), used_ratio=0.8))
    await plane.write(range(1, 8))
    assert await wakes(plane) == []
    started = await plane.start([8])
    assert set(await wakes(plane)) == {"mark"}
    await plane.finish(started, 1)
    assert await wakes(plane) == ["mark"]
    assert await wakes(plane) == []


@pytest.mark.usefixtures("every_wake")
async def test_a_start_alone_at_the_mark_wakes_with_what_it_reserves(plane: DataPlane) -> None:
    await apply(plane, 2, limited(Quota(10 * BLOCK), used_ratio=0.8))
    assert await reserve(plane, 7 * BLOCK) == [b"OK", 0]
    assert await reserve(plane, BLOCK) == [b"OK", 0, 1]


@pytest.mark.usefixtures("every_wake")
async def test_the_mark_of_a_type_wakes(plane: DataPlane) -> None:
    await apply(plane, 2, limited(Quota(1 << 40, {StorageType.NFS: 10 * BLOCK}), used_ratio=0.8))
    await plane.write(range(1, 8))
    assert await wakes(plane) == []
    await plane.write([8])
    assert set(await wakes(plane)) == {"mark"}


@pytest.mark.usefixtures("every_wake")
async def test_the_mark_of_keys_wakes_and_the_limit_refuses(plane: DataPlane) -> None:
    """WIRE.md A: keys / max_key_count >= used_percentage starts reclaim; max_key_count refuses."""
    await apply(plane, 2, limited(Quota(1 << 40), keys=10, used_ratio=0.8))
    await plane.write(range(1, 8))
    assert await wakes(plane) == []
    await plane.write([8])
    assert await wakes(plane) == ["mark"]
    await plane.write([9, 10])
    await wakes(plane)
    await refused(plane.start([11]))
    assert (await wakes(plane))[0] == "refused"
    known = await waking.refusals(plane.index.connection)
    assert known["default"] == {Subject(Scope.KEYS, "model-a"): 1}


@pytest.mark.usefixtures("every_wake")
async def test_what_waits_for_its_deletion_wakes_nobody(plane: DataPlane) -> None:
    """Of 9 KiB 4 are on their way out: the quota counts them, the mark at 8 KiB does not."""
    quota = Quota(10 * BLOCK, {StorageType.NFS: 10 * BLOCK})
    await apply(plane, 2, limited(quota, used_ratio=0.8))
    await plane.write(range(1, 8))
    await plane.index.remove(plane.mirror.current.instances["model-a"], [1, 2, 3, 4], 60_000)
    await wakes(plane)
    await plane.write([8, 9])
    assert await wakes(plane) == []
    await refused(plane.start([10, 11]))


@pytest.mark.usefixtures("every_wake")
@pytest.mark.parametrize(("ratio", "reasons"), [(3.2, set()), (1.0, {"mark"}), (0.0, set())])
async def test_a_ratio_above_one_wakes_nobody(plane: DataPlane, ratio: float, reasons: set[str]) -> None:
    """A full group: only a ratio of exactly 1 counts that as reached. A lower limit wakes them all."""
    await apply(plane, 2, limited(Quota(4 * BLOCK), used_ratio=ratio))
    await plane.write(range(1, 5))
    assert set(await wakes(plane)) == reasons
    await apply(plane, 3, limited(Quota(3 * BLOCK), used_ratio=ratio))
    plane.index.pusher.mark(shards_of(plane.mirror.current.instances["model-a"])[0])
    assert await wakes(plane) == ["mark"]


async def test_wakes_are_told_now_and_then_and_none_is_lost(plane: DataPlane, monkeypatch) -> None:
    monkeypatch.setattr(waking, "MARK_SECONDS", 60.0)
    await apply(plane, 2, limited(Quota(10 * BLOCK), used_ratio=0.1))
    for key in range(1, 6):
        await plane.write([key])
        await plane.index.pusher.flush()
    wake = {b"reason": b"mark", b"number": b"1"}
    assert [fields for _, fields in plane.client.xrange(keyspace.WAKE)] == [wake]
    monkeypatch.setattr(waking, "MARK_SECONDS", 0.0)
    for _ in range(2):
        await plane.index.pusher.flush()
    assert [fields for _, fields in plane.client.xrange(keyspace.WAKE)] == [wake] * 2


@pytest.mark.usefixtures("every_wake")
async def test_what_was_refused_is_on_record_until_it_is_forgotten(plane: DataPlane) -> None:
    """With the most that was asked for; nothing of what is larger than the limit."""
    await apply(plane, 2, limited(Quota(4 * BLOCK, {StorageType.NFS: 2 * BLOCK})))
    await plane.write([1])
    await refused(plane.start(range(10, 15)))
    await refused(plane.start(range(10, 13)))
    assert await waking.refusals(plane.index.connection) == {}
    await refused(plane.start(range(10, 14)))
    await refused(plane.start(range(10, 12)))
    whole, kind = Subject(Scope.GROUP, "default"), Subject(Scope.STORAGE_TYPE, "nfs")
    known = await waking.refusals(plane.index.connection)
    assert known == {"default": {whole: 4 * BLOCK, kind: 2 * BLOCK}}
    await waking.refusals_forget(plane.index.connection, "default", [whole])
    assert set((await waking.refusals(plane.index.connection))["default"]) == {kind}


async def test_the_largest_refused_start_is_told_of_at_once(plane: DataPlane) -> None:
    """Small ones that are refused all the time neither hide it nor hold it back."""
    whole, waker = Subject(Scope.GROUP, "default"), waking.Waker(plane.index.connection)
    for wanted in (1000, 1000, 5000, 1000):
        await waker.refused("default", [whole], wanted)
    await waking.Waker(plane.index.connection).refused("default", [whole], 10)
    assert await waking.refusals(plane.index.connection) == {"default": {whole: 5000}}


async def test_a_lost_wake_fails_no_call(plane: DataPlane) -> None:
    """The stream's key is something else: the Start is refused for want of room, not for the wake."""
    plane.client.set(keyspace.WAKE, "not a stream")
    await apply(plane, 2, limited(Quota(BLOCK)))
    await refused(plane.start([1, 2]))


async def test_four_writers_never_pass_the_quota_by_one_byte(plane: DataPlane) -> None:
    """30 KiB of 32 KiB are used and four write blocks of 1 KiB at once, giving back now and then."""
    limit = 32 * BLOCK
    await apply(plane, 2, limited(Quota(limit), used_ratio=3.2))
    await plane.write(range(1, 31))
    await plane.index.pusher.flush()
    keys, seen, done = itertools.count(100), [], asyncio.Event()
    entry = plane.mirror.current.instances["model-a"]

    async def write() -> int:
        written = 0
        for turn in range(40):
            key = next(keys)
            try:
                started = await plane.start([key])
            except DomainError as error:
                assert error.code is Code.CAPACITY
                continue
            written += 1
            await plane.finish(started, turn % 3 and 1)
            if turn % 5 == 4:
                await plane.index.remove(entry, [key], 0)
                await plane.duties()
        return written

    async def watch() -> None:
        while not done.is_set():
            held = 0
            for shard in range(entry.shards):
                fields = plane.client.hgetall(keyspace.instance(INSTANCE, shard))
                held += sum(int(value) for name, value in fields.items() if name.startswith(b"b:"))
            seen.append(held)
            await plane.index.pusher.flush()
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    written = await asyncio.gather(*(write() for _ in range(4)))
    done.set()
    await watcher
    assert max(seen) == limit  # it was full, and never fuller
    assert min(seen) >= 30 * BLOCK
    assert sum(written) >= 2


async def test_the_last_byte_of_a_quota(plane: DataPlane) -> None:
    """What fits to the byte fits, of the group and of a type; one byte more does not."""
    await apply(plane, 2, limited(Quota(10_000, {StorageType.NFS: 9000})))
    assert await reserve(plane, 9001) == [b"TYPE"]
    assert (await reserve(plane, 9000))[:2] == [b"OK", 0]
    assert await reserve(plane, 1) == [b"TYPE"]
    await apply(plane, 3, limited(Quota(10_000)))
    assert await reserve(plane, 1001) == [b"GROUP", b"9000", b"10000"]
    assert (await reserve(plane, 1000))[:2] == [b"OK", 0]
    assert await reserve(plane, 1) == [b"GROUP", b"10000", b"10000"]


async def test_a_lower_quota_stops_writes_at_once(plane: DataPlane) -> None:
    await apply(plane, 2, limited(Quota(10 * BLOCK)))
    await plane.write(range(1, 7))
    await apply(plane, 3, limited(Quota(5 * BLOCK)))
    await refused(plane.start([7]))
    await apply(plane, 4, limited(Quota(7 * BLOCK)))
    assert len((await plane.start([7])).locations) == 1


@pytest.mark.redis_only
async def test_limits_of_a_version_without_marks_get_them(plane: DataPlane) -> None:
    """An upgrade publishes nothing: control sets all limits again when it starts."""
    limits = keyspace.group_limits(keyspace.group(GROUP))
    await apply(plane, 2, limited(Quota(10 * BLOCK), used_ratio=0.8))
    known = plane.client.hgetall(limits)
    assert (known[b"mark"], known[b"mark:keys"]) == (b"8192", b"8000")
    plane.client.hdel(limits, "mark", "mark:keys")
    await apply(plane, 2, limited(Quota(10 * BLOCK), used_ratio=0.8))
    assert plane.client.hgetall(limits) == known
    await apply(plane, 2, limited(Quota(99 * BLOCK), used_ratio=0.8))
    assert plane.client.hgetall(limits) == known


async def test_totals_say_what_is_pending_of_each_type(plane: DataPlane) -> None:
    await plane.write(range(1, 6))
    await plane.index.remove(plane.mirror.current.instances["model-a"], [1, 2], 60_000)
    await plane.index.pusher.flush()
    base = keyspace.group(GROUP)
    command = ("HMGET", base, f"u:{NFS}", f"p:{NFS}", "p")
    assert await plane.index.connection.call(*command) == [b"5120", b"2048", b"2048"]
    assert await plane.index.connection.call("FCALL", "kvcm_retotal", 1, base) == 0
    assert await plane.index.connection.call(*command) == [b"5120", b"2048", b"2048"]


async def test_what_quotas_refuse_is_counted_by_itself(plane: DataPlane) -> None:
    """The group's quota, a type's, and max_key_count; not a storage that cannot be written."""

    def counted() -> tuple[int, int]:
        row = plane.facts._instances["model-a"]
        return row["write_refused"], row["quota_refused"]

    assert counted() == (0, 0)
    await apply(plane, 2, limited(Quota(BLOCK)))
    await refused(plane.start([1, 2]))
    assert counted() == (1, 1)
    await apply(plane, 3, limited(Quota(1 << 40, {StorageType.NFS: BLOCK})))
    await refused(plane.start([1, 2]))
    assert counted() == (2, 2)
    await apply(plane, 4, limited(Quota(1 << 40), keys=1))
    await refused(plane.start([1, 2]))
    assert counted() == (3, 3)
    storage = plane.mirror.current.storages["nfs_01"]
    await apply(plane, 5, replace(storage, is_enabled=False))
    await refused(plane.start([1]), Code.IO_ERROR)
    assert counted() == (4, 3)
    totals = {command[2]: command[3] for command in plane.facts.take() if command[0] == "HINCRBY"}
    assert (totals["model-a|write_refused"], totals["model-a|quota_refused"]) == (4, 3)
