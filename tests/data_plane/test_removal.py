"""Remove, trim and deletion: what goes, when its space is free, and what neighbours keep."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import ReclaimSettings
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import codec, keyspace, leaving, trims
from kvcm_platform.index.facts import decode
from kvcm_platform.index.late_deletions import late_deletions
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, found, group, instance, storage
from tests.support.reclaims import redis_of

KEYS = list(range(1, 21))
BASE = keyspace.instance(0xABC, 0)
ALL_CACHE, ALL_META, TIMESTAMP = 1, 2, 3
SLOT = 8192


@pytest.fixture
async def disk(plane: DataPlane, tmp_path: Path) -> Path:
    """Blocks of 8 KiB in files of 8 slots, so that freed slots are whole pages."""
    plane.publish(2, instance(specs=[("tp0", SLOT)]))
    await plane.mirror.refresh()
    return tmp_path / "nfs"


class WorkerDied(Exception):
    pass


async def write_data(plane: DataPlane, keys: list[int]) -> dict[int, str]:
    """Writes blocks as an engine does; returns key -> URI."""
    started = await plane.start(keys)
    uris = [found(wire).uri for wire in started.locations]
    for key, text in zip(keys, uris, strict=True):
        put(text, key)
    await plane.finish(started, len(uris))
    return dict(zip(keys, uris, strict=True))


def put(text: str, key: int) -> None:
    uri = parse_uri(text)
    os.makedirs(os.path.dirname(uri.path), exist_ok=True)
    descriptor = os.open(uri.path, os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, bytes([key]) * uri.size, uri.offset)
    os.close(descriptor)


def get(text: str) -> bytes:
    uri = parse_uri(text)
    with open(uri.path, "rb") as file:
        return os.pread(file.fileno(), uri.size, uri.offset)


def files_under(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and path.name != marker.MARKER]


def bytes_on_disk(root: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in files_under(root))


async def test_removed_blocks_free_their_space_and_only_theirs(plane, disk):
    uris = await write_data(plane, KEYS)
    assert bytes_on_disk(disk) == 20 * SLOT
    gone = [1, 3, 8, 20]
    await plane.service.remove_cache("model-a", Blocks(gone, ()), None)
    assert await plane.statuses([1, 2]) == ["DELETING", "SERVING"]
    assert len(await plane.match(KEYS)) == 0
    assert (await plane.recount()).used == 20 * SLOT  # pending deletion still counts
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 4
    assert bytes_on_disk(disk) == 16 * SLOT
    for key in set(KEYS) - set(gone):
        assert get(uris[key]) == bytes([key]) * SLOT
    count = await plane.recount()
    assert (count.used, count.has_drift) == (16 * SLOT, False)
    assert await plane.statuses([1]) == ["NOT_FOUND"]


async def test_a_file_goes_with_its_last_slot(plane, disk):
    await write_data(plane, KEYS)
    assert len(files_under(disk)) == 3
    await plane.service.remove_cache("model-a", Blocks(KEYS[:8], ()), None)
    plane.make_due()
    await plane.duties()
    assert len(files_under(disk)) == 2
    await plane.service.remove_cache("model-a", Blocks(KEYS[8:], ()), None)
    plane.make_due()
    await plane.duties()
    assert files_under(disk) == []
    assert plane.client.hlen(keyspace.slot_files(keyspace.storage(1))) == 0
    assert plane.client.hlen(keyspace.runs(BASE)) == plane.client.zcard(keyspace.recency(BASE)) == 0


async def test_deletion_waits_for_readers(plane, disk):
    await write_data(plane, KEYS)
    seconds, micros = plane.client.time()
    before = seconds * 1000 + micros // 1000
    await plane.service.remove_cache("model-a", Blocks(KEYS, ()), None)
    assert (await plane.duties()).deletions.deleted == 0
    due = plane.client.zrange(keyspace.pending_due(BASE), 0, -1, withscores=True)
    assert all(score >= before + 500 for _, score in due)
    plane.publish(3, group(reclaim=ReclaimSettings(delay_before_delete_ms=60_000)))
    await plane.mirror.refresh()
    await write_data(plane, [99])
    await plane.service.remove_cache("model-a", Blocks([99], ()), None)
    assert (
        max(s for _, s in plane.client.zrange(keyspace.pending_due(BASE), 0, -1, withscores=True))
        > before + 59_000
    )


async def test_deletion_may_be_repeated_at_any_step(plane, disk, monkeypatch):
    """The worker dies after the files are gone and before their metadata is: nothing is lost."""
    await write_data(plane, KEYS)
    await plane.service.remove_cache("model-a", Blocks(KEYS, ()), None)
    plane.make_due()
    original = plane.index.function

    async def dies(name, *args):
        if name == "kvcm_deleted":
            raise WorkerDied
        return await original(name, *args)

    monkeypatch.setattr(plane.index, "function", dies)
    assert (await plane.duties()).failures == 1
    monkeypatch.undo()
    assert (await plane.recount()).used == 20 * SLOT
    await plane.duties()
    assert (await plane.recount()).used == 0
    assert plane.client.hlen(keyspace.slot_files(keyspace.storage(1))) == 0


async def test_a_storage_that_is_down_keeps_its_list(plane, disk):
    await write_data(plane, KEYS)
    await plane.service.remove_cache("model-a", Blocks(KEYS, ()), None)
    plane.make_due()
    plane.publish(3, storage(disk, is_available=False, unavailable_reason="no answer"))
    report = await plane.duties()
    assert (report.deletions.deleted, report.deletions.postponed) == (0, 20)
    plane.publish(4, storage(disk))
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 20
    assert files_under(disk) == []


async def test_nothing_outside_the_root_is_touched(plane, disk, tmp_path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("keep")
    await write_data(plane, KEYS[:8])
    os.rename(disk / "model-a", disk / "moved")
    os.symlink(outside, disk / "model-a")
    await plane.service.remove_cache("model-a", Blocks(KEYS[:8], ()), None)
    plane.make_due()
    report = await plane.duties()
    assert report.deletions.deleted == 0
    assert "leads out" in next(iter(report.deletions.reasons))
    assert (outside / "file").read_text() == "keep"


async def test_remove_keeps_what_the_mask_keeps(plane):
    await plane.write(KEYS)
    await plane.service.remove_cache("model-a", Blocks([1, 2, 3, 777], ()), [True, False, False])
    assert await plane.statuses([1, 2, 3, 777]) == ["SERVING", "DELETING", "DELETING", "NOT_FOUND"]


async def test_a_finish_after_remove_brings_nothing_back(plane):
    started = await plane.start(KEYS)
    await plane.service.remove_cache("model-a", Blocks(KEYS[:5], ()), None)
    await plane.finish(started, len(KEYS))
    assert await plane.statuses(KEYS[:6]) == ["DELETING"] * 5 + ["SERVING"]
    plane.make_due()
    await plane.duties()
    count = await plane.recount()
    assert (count.used, count.has_drift) == (15 * 1024, False)


async def test_a_late_writer_of_a_failed_block_is_cleaned_up_later(plane, disk):
    started = await plane.start(KEYS[:8])
    uris = [found(wire).uri for wire in started.locations]
    await plane.finish(started, 0)
    await plane.duties()
    assert (await plane.recount()).used == 0
    put(uris[2], 3)  # the engine had not heard of it
    assert bytes_on_disk(disk) == SLOT
    plane.make_due()
    await plane.duties()
    assert files_under(disk) == []
    assert plane.client.zcard(keyspace.pending_due(BASE)) == 0


async def test_failed_slots_of_a_live_file_leave_the_others_alone(plane, disk):
    started = await plane.start(KEYS[:8])
    uris = [found(wire).uri for wire in started.locations]
    for key, text in zip(KEYS[:8], uris, strict=True):
        put(text, key)
    await plane.finish(started, [key % 2 == 0 for key in KEYS[:8]])
    for _ in range(2):  # at once, and again after the longest write timeout
        plane.make_due()
        await plane.duties()
        assert bytes_on_disk(disk) == 4 * SLOT
        assert [get(text)[0] for text in uris] == [0, 2, 0, 4, 0, 6, 0, 8]


async def test_trim_all_empties_disk_and_usage(plane, disk):
    await write_data(plane, KEYS)
    open_session = await plane.start([500, 501])
    await plane.service.trim_cache("model-a", ALL_CACHE, 0, 0)
    assert await plane.statuses([*KEYS, 500]) == ["DELETING"] * 21
    plane.make_due()
    await plane.duties()
    assert files_under(disk) == []
    await plane.finish(open_session, 2)
    count = await plane.recount()
    assert (count.used, count.has_drift) == (0, False)
    assert plane.client.hlen(keyspace.TRIMS) == 0


@pytest.mark.redis_only
async def test_trim_all_takes_what_was_finished_just_now(plane):
    """However late this process thinks it is: its estimate of the index's clock lags under load."""
    await plane.write(list(range(1, 20)))
    plane.index.connection.server_of(BASE)._clock_offset_ms -= 500
    await plane.service.trim_cache("model-a", 1, 0, 0)
    assert await plane.match([1]) == []


@pytest.mark.parametrize("strategy", [ALL_CACHE, ALL_META])
async def test_trim_all_takes_what_a_clock_ahead_began(plane, monkeypatch, strategy):
    """A process estimates the server's clock; on a machine that stalls it may be ahead for a while."""
    here = plane.index.now_ms
    with monkeypatch.context() as ahead:
        ahead.setattr(plane.index, "now_ms", lambda: here() + 400)
        await plane.start([1, 2, 3])
    await plane.service.trim_cache("model-a", strategy, 0, 0)
    assert set(await plane.statuses([1, 2, 3])) <= {"DELETING", "NOT_FOUND"}


async def test_trim_by_time_is_inclusive_and_by_finish_time(plane):
    async def finished_at(keys: list[int]) -> int:
        await plane.write(keys)
        (record,) = await plane.index.records(plane.mirror.current.instances["model-a"], keys)
        return next(codec.locations(record)).time_ms // 1000

    first = await finished_at([1])
    await asyncio.sleep(1.1)
    second = await finished_at([2])
    await asyncio.sleep(1.1)
    await finished_at([3])
    writing = await plane.start([4])
    await plane.service.trim_cache("model-a", TIMESTAMP, second, second)
    assert await plane.statuses([1, 2, 3, 4]) == ["SERVING", "DELETING", "SERVING", "WRITING"]
    await plane.service.trim_cache("model-a", TIMESTAMP, first + 1, 0)
    assert await plane.statuses([1, 3, 4]) == ["SERVING", "DELETING", "WRITING"]
    await plane.finish(writing, 1)


@pytest.mark.parametrize(
    ("strategy", "begin", "end", "field"),
    [
        (0, 0, 0, "strategy"),
        (7, 0, 0, "strategy"),
        (3, -1, 0, "begin_timestamp"),
        (3, 0, -1, "end_timestamp"),
        (3, 9, 5, "begin_timestamp"),
        (3, 2_000_000_000, 0, "begin_timestamp"),
    ],
)
async def test_bad_trims_are_refused(plane, strategy, begin, end, field):
    with pytest.raises(DomainError) as caught:
        await plane.service.trim_cache("model-a", strategy, begin, end)
    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, field)


async def test_trim_of_metadata_makes_orphans(plane, disk):
    await write_data(plane, KEYS)
    await plane.service.trim_cache("model-a", ALL_META, 0, 0)
    assert await plane.statuses(KEYS) == ["NOT_FOUND"] * 20
    count = await plane.recount()
    assert (count.used, count.has_drift) == (0, False)
    plane.make_due()
    assert (await plane.duties()).deletions.orphaned == 20
    assert bytes_on_disk(disk) == 20 * SLOT
    base = keyspace.storage(1)
    assert plane.client.hlen(keyspace.orphans(base)) == 20
    assert {name: int(v) for name, v in plane.client.hgetall(base).items()} == {b"ob": 20 * SLOT, b"on": 20}


def removed_of(plane: DataPlane) -> tuple[int, int]:
    """What the counter says and what the facts sum up to, of which history is made."""
    redis = redis_of(plane)
    told = sum(
        decode(fields).instances["model-a"]["removed_blocks"]
        for _, fields in redis.xrange(keyspace.FACTS)
        if "removed_blocks" in decode(fields).instances.get("model-a", {})
    )
    return int(redis.hget(keyspace.COUNTERS, "model-a|removed_blocks") or 0), told


@pytest.mark.parametrize("strategy", [ALL_CACHE, ALL_META, TIMESTAMP])
async def test_a_trim_counts_what_it_removes_once(plane, monkeypatch, strategy):
    monkeypatch.setattr(trims, "COUNT_SECONDS", 0.0)
    await plane.write(range(1, 1501))
    for _ in range(2):
        await plane.service.trim_cache("model-a", strategy, 0, 0)
        while redis_of(plane).hlen(keyspace.TRIMS):  # it goes on where the caller did not wait
            await asyncio.sleep(0.01)
        await asyncio.gather(*trims._background)
        assert removed_of(plane) == (1500, 1500)


async def test_a_trim_survives_the_process_that_began_it(plane, monkeypatch):
    keys = list(range(1, 3001))
    await plane.write(keys)
    calls = 0
    original = plane.index.remove_chunk

    async def dies_midway(*args):
        nonlocal calls
        calls += 1
        if calls > 2:
            raise ConnectionAbortedError
        return await original(*args)

    monkeypatch.setattr(plane.index, "remove_chunk", dies_midway)
    with pytest.raises(ConnectionAbortedError):
        await plane.service.trim_cache("model-a", ALL_CACHE, 0, 0)
    monkeypatch.undo()
    for name in plane.client.scan_iter(keyspace.TRIMS + ":*"):
        plane.client.delete(name)  # the dead runner's lease runs out
    assert (await plane.duties()).trimmed > 0
    # Where that took longer than the delay, some are deleted already.
    assert set(await plane.statuses(keys)) <= {"DELETING", "NOT_FOUND"}
    assert plane.client.hlen(keyspace.TRIMS) == 0
    assert removed_of(plane) == (3000, 3000), "by both processes"


async def test_a_removed_instance_leaves_nothing_behind(plane, disk):
    await write_data(plane, KEYS)
    await plane.start([100, 101])
    entry = plane.mirror.current.instances["model-a"]
    plane.client.execute_command(*leaving.leave_command(entry))
    plane.publish(3, removed=[("instance", "model-a")])
    late = await plane.start([200])  # by a process that has not heard of the removal
    for _ in range(4):
        plane.make_due()
        await plane.duties()
    assert len(late.locations) == 1
    assert files_under(disk) == []
    assert plane.client.hlen(keyspace.LEAVING) == 1  # another late write could still come
    plane.client.hset(keyspace.LEAVING_SINCE, entry.number, "0:0")  # half a minute passes
    await plane.duties()
    assert plane.client.hlen(keyspace.LEAVING) == plane.client.hlen(keyspace.LEAVING_SINCE) == 0
    assert [name for name in plane.client.scan_iter() if name.startswith(b"{abc:")] == []
    totals = plane.client.hgetall(keyspace.group(1))
    assert {name: int(value) for name, value in totals.items() if int(value)} == {}
    assert plane.client.hlen(keyspace.group_vectors(keyspace.group(1))) == 0


async def test_nothing_is_deleted_below_a_lost_mount(plane, disk):
    """An unmounted root shows an empty directory: finding no file there is not success."""
    await write_data(plane, KEYS)
    os.rename(disk, disk.with_name("mounted"))
    disk.mkdir()
    await plane.service.remove_cache("model-a", Blocks(KEYS, ()), None)
    plane.make_due()
    report = await plane.duties()
    assert (report.deletions.deleted, report.deletions.postponed) == (0, 20)
    assert "is the storage mounted?" in next(iter(report.deletions.reasons))
    disk.rmdir()
    os.rename(disk.with_name("mounted"), disk)
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 20
    assert files_under(disk) == []


async def test_a_storage_on_which_nothing_can_be_deleted_is_known_with_its_reason(plane, disk, tmp_path):
    await write_data(plane, KEYS)
    await plane.service.remove_cache("model-a", Blocks(KEYS[:4], ()), None)
    plane.make_due()
    plane.publish(3, storage(tmp_path / "nfs", version=3, is_available=False, unavailable_reason="it hangs"))
    assert (await plane.duties()).deletions.postponed == 4
    late = late_deletions(plane.client)
    assert list(late) == [1] and late[1].why == "nfs_01: it hangs"
    plane.make_due()
    await plane.duties()
    assert late_deletions(plane.client)[1].since == late[1].since
    plane.publish(4, storage(tmp_path / "nfs", version=4))
    plane.make_due()
    assert (await plane.duties()).deletions.deleted == 4
    assert late_deletions(plane.client) == {}
