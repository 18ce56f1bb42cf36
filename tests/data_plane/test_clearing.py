"""Blocks that lose their storage: it is removed, memory behind it is gone, or its objects vanished."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.duties.clearing import Clearing
from kvcm_platform.duties.run import duties_run
from kvcm_platform.index import keyspace
from kvcm_platform.index.duties import anything_due
from kvcm_platform.index.storage_checks import check_states, request_check
from kvcm_platform.index.storage_walk import PAGE
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, group, storage
from tests.support.objects import put_objects, uris

KEYS = list(range(1, 41))
MORE = list(range(101, 131))


@pytest.fixture
async def second(plane: DataPlane, tmp_path: Path) -> StorageEntry:
    """KEYS lie on nfs_01, MORE on nfs_02; every block has its object."""
    (tmp_path / "two").mkdir()
    marker.mark(str(tmp_path / "two"))
    second = storage(tmp_path / "two", name="nfs_02", number=2)
    put_objects((await plane.write(KEYS)).locations)
    plane.publish(2, second, group(version=2, storage_candidates=("nfs_02", "nfs_01")))
    await plane.mirror.refresh()
    put_objects((await plane.write(MORE)).locations)
    return second


def files_under(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != marker.MARKER]


async def change(plane: DataPlane, version: int, entry: StorageEntry) -> None:
    plane.publish(version, replace(entry, version=version))
    await plane.mirror.refresh()


async def until_empty(plane: DataPlane) -> int:
    """Duties until the pending deletions are through; returns the locations that were cleared."""
    cleared = 0
    for _ in range(4):
        cleared += (await plane.duties()).cleared_locations
        plane.make_due()
    return cleared


async def test_a_storage_that_is_removed_is_emptied_and_others_keep_theirs(plane, second, tmp_path):
    await change(plane, 3, replace(second, is_leaving=True))
    assert await plane.match(MORE) == []  # at once, before anything was cleared
    assert await until_empty(plane) == len(MORE)
    assert files_under(tmp_path / "two") == []
    assert len(await plane.match(KEYS)) == len(KEYS)
    count = await plane.recount()
    assert (count.drift, count.used) == ({}, len(KEYS) * 1024)
    assert await until_empty(plane) == 0


async def test_a_block_being_written_goes_as_well_and_its_finish_brings_nothing_back(plane, second, tmp_path):
    started = await plane.start([201, 202])
    await change(plane, 3, replace(second, is_leaving=True))
    assert (await plane.duties()).cleared_locations == len(MORE) + 2
    plane.make_due()
    await plane.duties()
    put_objects(started.locations)
    await plane.finish(started, 2)
    assert await plane.statuses([201, 202]) == ["NOT_FOUND", "NOT_FOUND"]
    plane.make_due()
    await plane.duties()
    assert files_under(tmp_path / "two") == []  # what the late writer left, too


async def test_blocks_on_lost_memory_go_without_asking_for_it(plane, second, tmp_path):
    """The number is another's part: the storage lives on with what is left."""
    await change(plane, 3, replace(second, number=3, lost_numbers=(2,)))
    before = files_under(tmp_path / "two")
    assert await plane.match(MORE) == []
    again = await plane.start(MORE)
    assert len(again.locations) == len(MORE)  # writable again at once
    assert await until_empty(plane) == len(MORE)
    assert files_under(tmp_path / "two") == before
    await plane.finish(again, len(MORE))
    assert len(await plane.match(MORE)) == len(MORE)


async def test_an_abandoned_storage_is_forgotten_and_never_touched(plane, second, tmp_path):
    gone = replace(second, is_leaving=True, is_abandoned=True, is_available=False)
    before = files_under(tmp_path / "two")
    await change(plane, 3, gone)
    assert await until_empty(plane) == len(MORE)
    assert files_under(tmp_path / "two") == before
    assert (await plane.recount()).used == len(KEYS) * 1024


async def test_a_storage_that_leaves_while_it_is_away_keeps_its_list(plane, second, tmp_path):
    await change(plane, 3, replace(second, is_leaving=True, is_available=False))
    await until_empty(plane)
    assert len(files_under(tmp_path / "two")) > 0
    await change(plane, 4, replace(second, is_leaving=True))
    await until_empty(plane)
    assert files_under(tmp_path / "two") == []


async def test_a_check_removes_what_has_no_object(plane, second, tmp_path):
    lost = uris((await plane.write([301, 302, 303])).locations)  # never written by their engine
    request_check(plane.client, [2])
    assert check_states(plane.client, [2])[2].is_running
    report = await plane.duties()
    assert (report.lost, report.failures) == (len(lost), 0)
    state = check_states(plane.client, [2])[2]
    assert (state.is_running, state.lost, state.left) == (False, len(lost), 0)
    assert 0 <= plane.index.now_ms() - state.ended_ms < 10_000
    assert await plane.statuses([301]) == ["DELETING"]
    assert len(await plane.match(MORE)) == len(MORE)
    assert len(await plane.match(KEYS)) == len(KEYS)


async def test_a_second_check_looks_again(plane, second, tmp_path):
    request_check(plane.client, [2])
    assert (await plane.duties()).lost == 0
    (victim, *_) = files_under(tmp_path / "two")
    slots = 8 if len(MORE) >= 8 else len(MORE)
    os.unlink(victim)
    assert (await plane.duties()).lost == 0  # nobody asked
    request_check(plane.client, [2])
    assert 0 < (await plane.duties()).lost <= slots


async def test_a_storage_that_cannot_be_asked_keeps_its_check(plane, second, tmp_path):
    await change(plane, 3, replace(second, is_available=False, unavailable_reason="no route"))
    request_check(plane.client, [2])
    assert (await plane.duties()).lost == 0
    state = check_states(plane.client, [2])[2]
    assert state.is_running
    assert "no route" in state.waiting
    await change(plane, 4, second)
    await plane.duties()
    assert not check_states(plane.client, [2])[2].is_running


class WorkerDied(Exception):
    pass


async def test_a_walk_goes_on_where_its_process_died(plane, second):
    """Each process dies after one page."""
    many = list(range(1001, 2001))
    put_objects((await plane.write(many)).locations)
    await change(plane, 3, replace(second, is_leaving=True))

    async def die() -> None:
        raise WorkerDied

    rounds, left = [], len(many) + len(MORE)
    while left and len(rounds) < 40:
        round_ = Clearing(await plane.session(), time.monotonic() + 60, die)
        with contextlib.suppress(WorkerDied):
            await round_.run()
        rounds.append(round_.cleared)
        left -= round_.cleared
    assert left == 0
    # A process that began anew each time would meet what it had marked before, and page after page of it.
    assert len(rounds) <= (len(many) + len(MORE) + len(KEYS)) // (PAGE // 2) + 3


@pytest.mark.redis_only
async def test_work_is_due_while_a_storage_is_to_be_empty(plane, second):
    registry = plane.mirror.current
    await plane.duties()
    assert not anything_due(plane.client, registry)
    request_check(plane.client, [2])
    assert anything_due(plane.client, registry)
    await plane.duties()
    assert not anything_due(plane.client, registry)
    await change(plane, 3, replace(second, is_leaving=True))
    plane.client.delete(keyspace.STORAGE_CLEARED_AT)
    assert anything_due(plane.client, plane.mirror.current)


async def test_nothing_is_placed_on_a_storage_that_leaves(plane, second):
    await change(plane, 3, replace(second, is_leaving=True))
    started = await plane.start([501])
    assert {uri.storage for uri in uris(started.locations)} == {"nfs_01"}
    first = plane.mirror.current.storages["nfs_01"]
    await change(plane, 4, replace(first, is_leaving=True))
    with pytest.raises(DomainError, match="all storages are unavailable|no usable storage"):
        await plane.start([502])


def look_again(plane: DataPlane) -> None:
    """It is time for the next look at numbers that no storage has."""
    plane.client.delete(keyspace.STORAGE_STRAYS_LOOKED)


async def test_blocks_on_a_number_that_no_storage_has_any_more_go(plane, second, tmp_path):
    started = await plane.start([201, 202])
    plane.publish(3, removed=[("storage", "nfs_02")])
    before = files_under(tmp_path / "two")
    assert (await plane.duties(registry_version=3)).cleared_locations == 0
    assert (await plane.duties(registry_version=3)).cleared_locations == 0, "two looks, 10 s apart"
    assert 0 < plane.client.pttl(keyspace.STORAGE_STRAYS_LOOKED) <= 10_000
    look_again(plane)
    assert (await plane.duties(registry_version=3)).cleared_locations == len(MORE) + 2
    await until_empty(plane)
    count = await plane.recount()
    assert (count.drift, count.used) == ({}, len(KEYS) * 1024)
    assert plane.client.hlen(keyspace.orphans(keyspace.storage(2))) > 0
    assert files_under(tmp_path / "two") == before, "nobody can delete them"
    assert len(await plane.match(KEYS)) == len(KEYS)
    await plane.finish(started, 2)
    look_again(plane)
    assert (await plane.duties(registry_version=3)).cleared_locations == 0


async def test_a_storage_that_came_after_the_registry_was_read_keeps_its_blocks(plane, tmp_path):
    (tmp_path / "two").mkdir()
    marker.mark(str(tmp_path / "two"))
    early = await plane.session()
    new = storage(tmp_path / "two", name="nfs_02", number=2)
    plane.publish(2, new, group(version=2, storage_candidates=("nfs_02",)))
    await plane.mirror.refresh()
    await plane.write(MORE)
    for _ in range(3):
        report = await duties_run(early, registry_version=2)
        assert (report.cleared_locations, report.failures) == (0, 0)
        look_again(plane)
    assert len(await plane.match(MORE)) == len(MORE)


@pytest.mark.parametrize("version", [None, 4])
async def test_a_registry_that_lacks_what_the_database_has_says_nothing(plane, second, version):
    plane.publish(3, removed=[("storage", "nfs_02")])
    for _ in range(3):
        assert (await plane.duties(registry_version=version)).cleared_locations == 0
        look_again(plane)
    plane.publish(4, second)
    assert (await plane.duties(registry_version=4)).cleared_locations == 0
    assert len(await plane.match(MORE)) == len(MORE)


async def test_an_index_in_doubt_is_left_alone_and_what_was_seen_before_is_forgotten(plane, second):
    plane.publish(3, removed=[("storage", "nfs_02")])
    life = plane.index.connection.life_of(keyspace.GENERATION)
    assert (await plane.duties(registry_version=3)).cleared_locations == 0
    life.is_undecided = True
    for _ in range(2):
        look_again(plane)
        assert (await plane.duties(registry_version=3)).cleared_locations == 0
    life.is_undecided = False
    look_again(plane)
    assert (await plane.duties(registry_version=3)).cleared_locations == 0
    look_again(plane)
    assert (await plane.duties(registry_version=3)).cleared_locations == len(MORE)
