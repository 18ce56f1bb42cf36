"""Deletions on storages that refuse, hang or break: who waits for whom, and what is tried how often."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.core.back_off import BackOff
from kvcm_platform.core.deletion import PendingObject
from kvcm_platform.core.executor import TRIAL
from kvcm_platform.core.uris import MARKER, parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties.deleters import BackendDeleter
from kvcm_platform.duties.run import DutiesReport, duties_run
from kvcm_platform.index import keyspace
from kvcm_platform.index.back_offs import back_offs
from kvcm_platform.storage import marker, mounted
from tests.support.data_plane import DataPlane, found, group, storage
from tests.support.hanging_mount import HangingMount, hanging_mount

KEYS = list(range(1, 41))
BASE = keyspace.instance(0xABC, 0)


def nfs(root: Path, name: str, number: int, **changes: object):
    root.mkdir(parents=True, exist_ok=True)
    marker.mark(str(root))
    return storage(root, name=name, number=number, **changes)


async def use(plane: DataPlane, version: int, *storages, candidates: list[str]) -> None:
    wanted = group(storage_candidates=tuple(candidates), version=version)
    plane.publish(version, *storages, wanted)
    await plane.mirror.refresh()


async def write(plane: DataPlane, keys: list[int]) -> list[Path]:
    """Blocks with their files, as an engine leaves them."""
    started = await plane.start(keys)
    paths = []
    for key, wire in zip(keys, started.locations, strict=True):
        uri = parse_uri(found(wire).uri)
        path = Path(uri.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        with path.open("r+b") as file:
            file.seek(uri.offset)
            file.write(bytes([key % 256]) * uri.size)
        paths.append(path)
    await plane.finish(started, len(keys))
    return paths


async def remove(plane: DataPlane, keys: list[int]) -> None:
    await plane.service.remove_cache("model-a", Blocks(keys, ()), None)


def waits_are_over(plane: DataPlane, number: int = 1) -> None:
    plane.client.hset(keyspace.storage(number), "d:until", 1)


class Asked:
    """How many objects of each storage backends were asked to delete."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects: Counter[str] = Counter()
        original = BackendDeleter.delete

        async def delete(deleter: BackendDeleter, objects: list[PendingObject]) -> list[str]:
            self.objects[deleter.backend.entry.name] += len(objects)
            return await original(deleter, objects)

        monkeypatch.setattr(BackendDeleter, "delete", delete)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_waits_double_from_a_second_to_a_minute():
    back_off, longest, shortest = BackOff(), [], []
    for _ in range(9):
        longest.append(back_off.failed(0, 1.0).until_ms)
        shortest.append(back_off.failed(0, 0.0).until_ms)
        back_off = back_off.failed(0, 1.0)
    assert longest == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]
    assert shortest == [wait // 2 for wait in longest]
    assert BackOff(5000).failed(7, 1.0).until_ms == 60_007, "however often it failed"


def test_a_wait_that_a_clock_which_jumped_left_behind_does_not_count():
    assert BackOff(3, 60_000).is_waiting(1)
    assert not BackOff(3, 60_000).is_waiting(60_000)
    assert not BackOff(3, 10_000_000).is_waiting(1)


async def test_a_dead_storage_is_tried_with_a_few_and_its_list_costs_nothing(plane, asked, tmp_path):
    keys = list(range(1, 2001))
    paths = await write(plane, keys)
    await remove(plane, keys)
    plane.make_due()
    root = tmp_path / "nfs"
    root.rename(tmp_path / "away")
    root.mkdir()
    first = await plane.duties()
    assert first.deletions.deleted == 0
    assert asked.objects["nfs_01"] <= 2 * 512, "chunks that were under way together, and no more"
    tried = asked.objects["nfs_01"]
    scores = dict(plane.client.zrange(keyspace.pending_due(BASE), 0, -1, withscores=True))
    assert (await plane.duties()).deletions.postponed == 0
    assert asked.objects["nfs_01"] == tried, "it is left alone for a while"
    assert dict(plane.client.zrange(keyspace.pending_due(BASE), 0, -1, withscores=True)) == scores
    waits_are_over(plane)
    await plane.duties()
    assert asked.objects["nfs_01"] - tried <= TRIAL, "then it is tried with a few"
    assert back_offs(plane.client, [1, 2])[1].failures == 2
    root.rmdir()
    (tmp_path / "away").rename(root)
    waits_are_over(plane)
    assert (await plane.duties()).deletions.deleted == 2000
    assert [path for path in paths if path.exists()] == []
    assert back_offs(plane.client, [1, 2]) == {}
    assert not (await plane.recount()).has_drift


async def test_a_wait_outlives_the_worker_and_grows_to_a_minute_at_most(plane, asked, tmp_path):
    await write(plane, KEYS)
    await remove(plane, KEYS)
    plane.make_due()
    shutil.rmtree(tmp_path / "nfs")
    for failures in range(1, 9):
        waits_are_over(plane)
        before = plane.index.now_ms()
        await plane.duties()  # each has deleters and an executor of its own, as a new worker has
        now = back_offs(plane.client, [1])[1]
        longest = min(2 ** (failures - 1), 60) * 1000
        assert now.failures == failures
        assert before + longest / 2 <= now.until_ms <= plane.index.now_ms() + longest


async def test_a_storage_that_was_known_to_be_away_is_tried_as_soon_as_it_is_back(plane, asked, tmp_path):
    await write(plane, KEYS)
    await remove(plane, KEYS)
    plane.make_due()
    root = tmp_path / "nfs"
    plane.client.hset(
        keyspace.storage(1), mapping={"d:failures": 7, "d:until": plane.index.now_ms() + 50_000}
    )
    await plane.duties()
    plane.publish(2, storage(root, version=2, is_available=False, unavailable_reason="it hangs"))
    for _ in range(3):
        report = await plane.duties()
        assert report.deletions.refused_on == {1: "nfs_01: it hangs"}
    assert asked.objects == {}
    plane.publish(3, storage(root, version=3))
    assert (await plane.duties()).deletions.deleted == len(KEYS)


async def test_an_object_that_nobody_can_delete_keeps_no_other_waiting(plane, asked, tmp_path):
    await write(plane, KEYS[:1])
    entry = plane.mirror.current.storages["nfs_01"]
    pending = keyspace.pending(BASE)
    await remove(plane, KEYS[:1])
    ((member, value),) = plane.client.hgetall(pending).items()
    outside = value.replace(b"/nfs/model-a", b"/../etc/aaaa")
    assert len(outside) == len(value)
    plane.client.hset(pending, member, outside)
    plane.make_due()
    report = await plane.duties()
    assert (report.deletions.deleted, report.deletions.postponed) == (0, 1)
    assert "is not under" in report.deletions.refused_on[entry.number]
    assert back_offs(plane.client, [1]) == {}, "it says nothing about the storage"
    await write(plane, KEYS[1:])
    await remove(plane, KEYS[1:])
    for due in plane.client.zrange(keyspace.pending_due(BASE), 0, -1):
        if due != member:
            plane.client.zadd(keyspace.pending_due(BASE), {due: 0})
    assert (await plane.duties()).deletions.deleted == len(KEYS) - 1


async def test_a_backend_that_breaks_over_one_object_frees_the_others(plane, monkeypatch, tmp_path):
    await write(plane, KEYS)
    await remove(plane, KEYS)
    plane.make_due()
    original = mounted.MountedBackend.delete

    async def delete(backend, objects):
        if any("7.0" in item.uri.path or item.uri.slot == 3 for item in objects):
            raise KeyError("a mistake in the backend")
        return await original(backend, objects)

    monkeypatch.setattr(mounted.MountedBackend, "delete", delete)
    report = await plane.duties()
    assert report.failures == 0
    assert report.deletions.deleted == len(KEYS) - len(KEYS) // 8
    assert report.deletions.postponed == len(KEYS) // 8
    assert "a mistake in the backend" in report.deletions.refused_on[1]


async def test_a_backend_that_always_breaks_is_left_alone_like_a_storage_that_refuses(plane, monkeypatch):
    await write(plane, KEYS)
    await remove(plane, KEYS)
    plane.make_due()
    calls = Counter()

    async def delete(backend, objects):
        calls["delete"] += 1
        raise KeyError("a mistake in the backend")

    monkeypatch.setattr(mounted.MountedBackend, "delete", delete)
    report = await plane.duties()
    assert (report.failures, report.deletions.postponed) == (0, len(KEYS))
    assert calls["delete"] <= 17
    assert back_offs(plane.client, [1])[1].failures == 1


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[HangingMount]:
    with hanging_mount(tmp_path / "hanging") as mount:
        yield mount


async def until_gone(plane: DataPlane, keys: list[int], duties: asyncio.Task[DutiesReport]) -> None:
    while set(await plane.statuses(keys)) != {"NOT_FOUND"}:
        assert not duties.done()
        await asyncio.sleep(0.02)


async def test_a_storage_that_hangs_keeps_no_other_waiting(plane, hanging):
    """Not those that were due with it, nor what is removed while it hangs."""
    on_stuck, on_good, later = list(range(1000, 1600)), list(range(1, 600)), [900, 901]
    await use(plane, 2, nfs(hanging.path, "nfs_02", 2), candidates=["nfs_02"])
    await write(plane, on_stuck)
    await use(plane, 3, candidates=["nfs_01"])
    await write(plane, on_good)
    await remove(plane, on_stuck + on_good)
    plane.make_due()
    hanging.hang()
    duties = asyncio.create_task(plane.duties())
    await until_gone(plane, on_good, duties)
    await write(plane, later)
    await remove(plane, later)
    await until_gone(plane, later, duties)
    assert set(await plane.statuses(on_stuck)) == {"DELETING"}
    hanging.go_on()
    report = await duties
    assert report.failures == 0
    while "DELETING" in await plane.statuses(on_stuck):
        await plane.duties()
    assert not (await plane.recount()).has_drift
    assert [path for path in hanging.source.rglob("*") if path.is_file()] == [hanging.source / MARKER]


async def test_a_storage_that_hangs_for_too_long_has_refused(plane, hanging, monkeypatch):
    monkeypatch.setattr(mounted, "ANSWER_SECONDS", 0.3)
    await use(plane, 2, nfs(hanging.path, "nfs_02", 2), candidates=["nfs_02"])
    await write(plane, KEYS)
    await remove(plane, KEYS)
    plane.make_due()
    hanging.hang()
    report = await plane.duties()
    assert "no answer within 0.3 s" in report.deletions.refused_on[2]
    assert back_offs(plane.client, [1, 2])[2].failures == 1
    hanging.go_on()
    while "DELETING" in await plane.statuses(KEYS):
        waits_are_over(plane, 2)
        await plane.duties()
    assert back_offs(plane.client, [1, 2]) == {}


async def test_two_storages_are_emptied_at_the_same_time(plane, tmp_path, monkeypatch):
    """Each waits until the other one was asked: one after the other would never end."""
    await use(plane, 2, nfs(tmp_path / "second", "nfs_02", 2), candidates=["nfs_02"])
    await write(plane, KEYS[:20])
    await use(plane, 3, candidates=["nfs_01"])
    await write(plane, KEYS[20:])
    await remove(plane, KEYS)
    plane.make_due()
    both, names = asyncio.Event(), set()
    original = mounted.MountedBackend.delete

    async def delete(backend, objects):
        names.add(backend.entry.name)
        if len(names) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 5)
        return await original(backend, objects)

    monkeypatch.setattr(mounted.MountedBackend, "delete", delete)
    assert (await plane.duties()).deletions.deleted == len(KEYS)


async def test_never_more_than_a_few_chunks_on_a_storage_at_a_time(plane, monkeypatch):
    keys = list(range(1, 3001))
    await write(plane, keys)
    await remove(plane, keys)
    plane.make_due()
    under_way, most, sizes = 0, 0, []
    original = mounted.MountedBackend.delete

    async def delete(backend, objects):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        sizes.append(len(objects))
        await asyncio.sleep(0)
        reasons = await original(backend, objects)
        under_way -= 1
        return reasons

    monkeypatch.setattr(mounted.MountedBackend, "delete", delete)
    assert (await plane.duties()).deletions.deleted == len(keys)
    assert most == 2
    assert max(sizes) <= 512


async def test_what_is_due_in_a_moment_is_prepared_and_never_deleted_before(plane, monkeypatch):
    """Readers may go on until then; the wait for the server's log need not come on top."""
    await write(plane, KEYS)
    await remove(plane, KEYS)
    due_ms = plane.index.now_ms() + 2000
    members = plane.client.zrange(keyspace.pending_due(BASE), 0, -1)
    plane.client.zadd(keyspace.pending_due(BASE), dict.fromkeys(members, due_ms))
    asked_at: list[int] = []
    original = mounted.MountedBackend.delete

    async def delete(backend, objects):
        seconds, micros = plane.client.time()
        asked_at.append(seconds * 1000 + micros // 1000)
        return await original(backend, objects)

    monkeypatch.setattr(mounted.MountedBackend, "delete", delete)
    assert (await duties_run(await plane.session(), ahead_ms=10)).deletions.deleted == 0
    report = await duties_run(await plane.session(), ahead_ms=4000)
    assert report.deletions.deleted == len(KEYS)
    assert min(asked_at) >= due_ms
