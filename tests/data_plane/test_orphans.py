"""The search for what nobody refers to on a storage (duties/orphans.py)."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kvcm_platform.core.uris import file_root
from kvcm_platform.duties.orphan_names import Names
from kvcm_platform.duties.orphan_order import OrphanFigures, OrphanOrder
from kvcm_platform.duties.orphans import CannotTell, OrphanSearch, Stopped
from kvcm_platform.index import keyspace
from kvcm_platform.storage import marker
from kvcm_platform.storage.tidy import tidy
from tests.support.data_plane import DataPlane, instance
from tests.support.evictions import evict_all
from tests.support.objects import put_objects

KEYS = list(range(1, 21))
OWNER = "installation/nfs_01"
ORPHAN = "0123abcd.zzzzzzz9"
ALL_META = 2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "nfs"


def leave(root: Path, name: str = f"model-a/tp0/{ORPHAN}", size: int = 4096) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\1" * size)
    return path


async def search(plane: DataPlane, *, owner: str = OWNER, min_age: float = -1, **more) -> OrphanFigures:
    """A negative age makes what was just written old enough."""
    is_dry = more.pop("is_dry", False)
    session = await plane.session()
    storage = session.registry.storages["nfs_01"]
    return await OrphanSearch(session, OrphanOrder(storage, owner, is_dry, min_age), **more).run()


async def written(plane: DataPlane, keys=KEYS) -> None:
    started = await plane.start(keys)
    put_objects(started.locations)
    await plane.service.finish_write("model-a", started.session_id, len(started.locations))


def files_of(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file() and path.name != marker.MARKER}


async def test_only_what_nothing_refers_to_goes(plane, root):
    await written(plane)
    served = files_of(root)
    orphan, other = leave(root), leave(root, f"gone/for-good/tp0/ff_1a.{'q' * 8}", 8192)
    figures = await search(plane, is_dry=True)
    assert (figures.orphans, figures.orphan_bytes, figures.deleted) == (2, 4096 + 8192, 0)
    assert {sample.name for sample in figures.samples} == {str(orphan), str(other)}
    assert files_of(root) == served | {orphan, other}
    figures = await search(plane)
    assert (figures.deleted, figures.deleted_bytes, figures.failed) == (2, 4096 + 8192, 0)
    assert (figures.referred, figures.looked_at) == (len(served), len(served) + 2)
    assert files_of(root) == served
    assert not (root / "gone").exists()
    assert (await search(plane)).orphans == 0


async def test_what_an_instance_wrote_that_was_registered_meanwhile_stays(plane, root):
    session = await plane.session()
    order = OrphanOrder(session.registry.storages["nfs_01"], OWNER, is_dry=False, min_age_seconds=-1)
    running = OrphanSearch(session, order)
    plane.publish(2, instance("model-b", 0xDEF))
    started = await plane.start(KEYS, "model-b")
    put_objects(started.locations)
    await plane.finish(started, len(KEYS), "model-b")
    written_now = files_of(root)
    figures = await running.run()
    assert (figures.deleted, figures.referred) == (0, len(written_now))
    assert files_of(root) == written_now


async def test_open_sessions_pending_deletions_and_notes_keep_files(plane, root):
    started = await plane.start(KEYS)
    put_objects(started.locations)
    assert (await search(plane)).orphans == 0, "a session is open"
    await plane.service.finish_write("model-a", started.session_id, 10)
    kept = await search(plane)
    assert kept.orphans == 0, "half was written, the other half waits for its deletion"
    for _ in range(2):
        plane.make_due()
        await plane.duties()
    assert (await search(plane)).orphans == 0, "files with freed slots are noted"
    assert await plane.statuses(KEYS[:10]) == ["SERVING"] * 10
    noted = {name.decode() for name in plane.client.hkeys(keyspace.slot_files(keyspace.storage(1)))}
    for name in plane.client.scan_iter(match="{*:*}:b"):
        plane.client.delete(name)
    figures = await search(plane, is_dry=True)
    assert figures.referred == len(noted) > 0
    assert not noted & {sample.name for sample in figures.samples}


async def test_files_of_evicted_blocks_are_no_orphans(plane, root):
    await written(plane)
    await evict_all(plane)
    for name in plane.client.scan_iter(match="{*:*}:b"):
        plane.client.delete(name)  # what is left of them are their deletions
    figures = await search(plane, is_dry=True)
    assert (figures.orphans, figures.referred) == (0, len(files_of(root)))


async def test_an_open_session_keeps_files_whose_records_are_not_there_yet(plane, root):
    started = await plane.start(KEYS)
    put_objects(started.locations)
    written_by_it = files_of(root)
    for name in plane.client.scan_iter(match="{*:*}:b"):
        plane.client.delete(name)
    figures = await search(plane)
    assert (figures.orphans, figures.referred) == (0, len(written_by_it))
    assert files_of(root) == written_by_it


async def test_young_files_are_left(plane, root):
    path = leave(root)
    figures = await search(plane, min_age=60)
    assert (figures.young, figures.orphans) == (1, 0)
    os.utime(path, (1, 1))
    assert (await search(plane, min_age=60)).young == 1, "a time that was set back says nothing"


async def test_what_is_not_named_like_ours_is_left_and_counted(plane, root, tmp_path):
    names = ["readme.txt", "model-a/tp0/notes", "model-a/tp0/ABC.zzzzzzz9", f"model-a/{ORPHAN}", ORPHAN]
    strangers = [leave(root, name, 10) for name in names]
    outside = leave(tmp_path / "elsewhere", f"tp0/{ORPHAN}")
    marker_of_probe = root / ".kvcm-probe-1-left"
    marker_of_probe.touch()
    (root / "linked").symlink_to(outside.parent.parent)
    (root / "model-a/tp0/12.zzzzzzz9").symlink_to(outside)
    figures = await search(plane)
    assert (figures.orphans, figures.foreign) == (0, len(names) + 2)
    assert all(path.exists() for path in strangers)
    assert outside.exists()


async def test_a_storage_below_the_root_is_another(plane, root):
    inner = leave(root, f"inner/a/tp0/{ORPHAN}")
    marker.mark(str(root / "inner"))
    figures = await search(plane)
    assert (figures.looked_at, inner.exists()) == (0, True)


async def test_a_foreign_owner_is_refused(plane, root):
    path = leave(root)
    assert (await search(plane, is_dry=True)).owner == OWNER, "an empty marker is adopted"
    with pytest.raises(CannotTell, match=r"another owner \(installation/nfs_01\)"):
        await search(plane, owner="other/nfs_01")
    assert path.exists()
    figures = await search(plane, owner="other/nfs_01", is_dry=True)
    assert (figures.owner, figures.orphans) == (OWNER, 1)
    (root / marker.MARKER).write_text("somebody's notes")
    with pytest.raises(CannotTell, match="unreadable marker"):
        await search(plane)
    (root / marker.MARKER).unlink()
    with pytest.raises(marker.NotTheStorage):
        await search(plane)
    assert path.exists()


async def test_another_storage_of_the_installation_in_the_same_place_loses_nothing(plane, root):
    await written(plane)
    served = files_of(root)
    second = replace(plane.mirror.current.storages["nfs_01"], name="nfs_02", number=2)
    plane.publish(2, second)
    assert (await search(plane)).owner == OWNER
    orphan = leave(root)
    session = await plane.session()
    order = OrphanOrder(second, "installation/nfs_02", is_dry=False, min_age_seconds=-1)
    figures = await OrphanSearch(session, order).run()
    assert (figures.owner, figures.deleted, figures.referred) == (OWNER, 1, len(served))
    assert files_of(root) == served
    assert not orphan.exists()


async def test_an_old_marker_without_content_is_adopted(plane, root):
    (root / marker.MARKER).write_bytes(b"")
    leave(root)
    assert (await search(plane)).deleted == 1
    assert marker.read_mark(str(root)).owner == OWNER


async def test_the_list_of_dropped_records_is_cleaned(plane, root):
    await written(plane)
    await plane.service.trim_cache("model-a", ALL_META, 0, 0)
    plane.make_due()
    await plane.duties()
    figures = await search(plane, is_dry=True)
    assert (figures.listed, figures.listed_bytes, figures.orphans) == (20, 20 * 1024, 0)
    figures = await search(plane)
    assert (figures.listed_deleted, figures.orphans) == (20, 0)
    assert files_of(root) == set()
    base = keyspace.storage(1)
    assert plane.client.hgetall(base) == {b"ob": b"0", b"on": b"0"}
    assert plane.client.hlen(keyspace.slot_files(base)) == 0


async def test_names_that_do_not_fit_are_looked_at_in_parts(plane, root):
    await written(plane, list(range(1, 401)))
    served = files_of(root)
    orphans = {leave(root, f"model-a/tp0/{number:x}.zzzzzzz9", 1) for number in range(300)}
    figures = await search(plane, at_most=8)
    assert figures.passes == figures.pass_number > 4
    assert (figures.looked_at, figures.referred) == (len(served) + 300, len(served))
    assert (figures.deleted, files_of(root)) == (300, served)
    assert not any(path.exists() for path in orphans)


async def test_a_search_can_be_stopped(plane, root):
    path = leave(root)
    with pytest.raises(Stopped):
        await search(plane, should_stop=lambda: True)
    assert path.exists()


async def test_folders_go_when_nothing_was_in_them_for_long(plane, root):
    await written(plane)
    (root / "gone/for-good/tp0").mkdir(parents=True)
    storage = plane.mirror.current.storages["nfs_01"]
    assert tidy(storage, time.time() - 60) == 0
    assert tidy(storage, time.time() + 60) == 3
    assert {path.name for path in root.iterdir()} == {"model-a", marker.MARKER}
    assert Path(file_root(storage)).exists()


def test_names_are_known_in_their_part_alone() -> None:
    names = Names(at_most=100)
    left = [more for number in range(1000) if (more := names.add(f"name-{number % 400}")) is not None]
    names.finish()
    known = names.known([f"name-{number}" for number in range(800)])
    mine = [number for number, answer in enumerate(known) if answer is not None]
    assert 0 < len([n for n in mine if n < 400]) <= 100
    assert all(known[n] is (n < 400) for n in mine)
    parts = [(names.rest, names.parts), *left]
    assert sum(1 / count for _, count in parts) == 1, "together the parts are everything"
