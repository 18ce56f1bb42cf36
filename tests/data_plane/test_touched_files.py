"""Storages with touch_file_when_create: their files are there before an engine learns of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, data_plane, group, instance
from tests.support.eventually import eventually
from tests.support.hanging_mount import hanging_mount
from tests.support.objects import put_objects, uris

KEYS = list(range(1, 21))
SPECS = (("tp0", 1024), ("tp1", 1024))


def touching(folder: Path, name: str, number: int, *, touch: bool = True) -> StorageEntry:
    (folder / name / "kv").mkdir(parents=True, exist_ok=True)
    marker.mark(str(folder / name / "kv"))
    spec = {"mountpoint": f"{folder}/{name}", "root_dir": "kv", "key_count_per_file": 8}
    return StorageEntry(name, number, StorageType.HF3FS, {**spec, "touch_file_when_create": touch})


@pytest_asyncio.fixture
async def plane(empty_valkey, client, tmp_path, shards: int) -> AsyncIterator[DataPlane]:
    entries = (
        *(touching(tmp_path, "a", 1), touching(tmp_path, "b", 2)),
        group(storage_candidates=("a", "b")),
        instance(shards=shards, specs=SPECS),
    )
    async with data_plane(empty_valkey.url, client, *entries, touch_seconds=0.5) as built:
        yield built


def files_of(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*") if path.is_file() and path.name != marker.MARKER}


def make_unwritable(root: Path) -> None:
    """A file stands where a folder is wanted: refused for root, too."""
    (root / "model-a").write_text("in the way")


async def test_files_are_there_and_empty_when_start_answers(plane, tmp_path):
    started = await plane.start(KEYS)
    named = {uri.path for uri in uris(started.locations)}
    assert files_of(tmp_path / "a") == named
    assert sum(os.path.getsize(path) for path in named) == 0
    put_objects(started.locations)
    await plane.finish(started, len(KEYS))
    assert await plane.statuses(KEYS) == ["SERVING"] * 20


async def test_blocks_that_exist_are_not_touched(plane, tmp_path):
    await plane.write(KEYS)
    before = files_of(tmp_path / "a")
    started = await plane.start(KEYS)
    assert started.locations == []
    assert files_of(tmp_path / "a") == before


async def test_without_the_member_nothing_is_made(plane, tmp_path):
    plane.publish(2, touching(tmp_path, "a", 1, touch=False))
    await plane.mirror.refresh()
    await plane.start(KEYS)
    assert files_of(tmp_path / "a") == set()


async def test_a_storage_that_takes_no_files_is_passed_over(plane, tmp_path):
    make_unwritable(tmp_path / "a/kv")
    started = await plane.start(KEYS)
    assert {uri.storage for uri in uris(started.locations)} == {"b"}
    assert files_of(tmp_path / "b") == {uri.path for uri in uris(started.locations)}
    put_objects(started.locations)
    await plane.finish(started, len(KEYS))
    assert await plane.statuses(KEYS) == ["SERVING"] * 20
    (tmp_path / "a/kv/model-a").unlink()
    for _ in range(2):
        plane.make_due()
        await plane.duties()
    count = await plane.recount()
    assert (count.used, count.reserved, count.has_drift) == (20 * 2048, 0, False)
    assert files_of(tmp_path / "a") == set()


async def test_when_none_takes_files_the_error_names_each_reason(plane, tmp_path):
    make_unwritable(tmp_path / "a/kv")
    (tmp_path / "b/kv" / marker.MARKER).unlink()
    with pytest.raises(DomainError) as caught:
        await plane.start(KEYS)
    assert caught.value.code is Code.IO_ERROR
    assert "a: Not a directory" in caught.value.message
    assert "b: .kvcm-storage is missing" in caught.value.message
    assert await plane.statuses(KEYS) == ["NOT_FOUND"] * 20
    for _ in range(2):
        plane.make_due()
        await plane.duties()
    marker.mark(str(tmp_path / "b/kv"))
    plane.make_due()
    await plane.duties()
    count = await plane.recount()
    assert (count.reserved, count.has_drift) == (0, False)
    (tmp_path / "a/kv/model-a").unlink()
    assert len((await plane.start(KEYS)).locations) == 20, "they are writable again"


def making_files(below: Path) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(f"files {below}")}


async def test_a_mount_that_hangs_costs_one_start_its_time(plane, tmp_path):
    with hanging_mount(tmp_path / "hanging") as mount:
        (mount.source / "kv").mkdir()
        marker.mark(str(mount.source / "kv"))
        entry = touching(tmp_path, "a", 1)
        plane.publish(2, replace(entry, spec={**entry.spec, "mountpoint": str(mount.path)}))
        await plane.mirror.refresh()
        mount.hang()
        started_at = time.monotonic()
        first = await plane.start(KEYS)
        assert time.monotonic() - started_at >= 0.5
        stuck = making_files(mount.path)
        second = await plane.start([100])
        assert making_files(mount.path) == stuck, "nothing is sent after what still hangs"
        both = uris([*first.locations, *second.locations])
        assert {uri.storage for uri in both} == {"b"}
        plane.make_due()
        mount.go_on()
        eventually(lambda: not making_files(mount.path))
        assert files_of(mount.source), "made after the Start had gone on without them"
        for _ in range(2):
            plane.make_due()
            await plane.duties()
        assert files_of(mount.source) == set(), "what was made late is deleted, too"
        assert files_of(tmp_path / "b") == {uri.path for uri in both}


async def test_a_touched_path_is_checked(plane, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "a/kv/model-a").symlink_to(tmp_path / "outside")
    started = await plane.start(KEYS)
    assert {uri.storage for uri in uris(started.locations)} == {"b"}
    assert list((tmp_path / "outside").iterdir()) == []
