"""Storages through their services: publication, probes, moves, removal, health."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.instances.services import instance_remove
from apps.storages.models import Storage, StorageHealthChange
from apps.storages.services import storage_remove, storage_set_enabled, storage_set_health, storage_update
from apps.storages.tasks import check_storages
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.index import keyspace, stats
from kvcm_platform.index import registry as index_registry
from kvcm_platform.storage import marker
from kvcm_platform.storage import probe as probes
from kvcm_platform.storage.probe import probe
from kvcm_platform.storage.registry import KINDS
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def refused(work: object, **arguments: object) -> Code:
    with pytest.raises(DomainError) as caught:
        work(acting=ADMIN, **arguments)  # type: ignore[operator]
    return caught.value.code


def published(index: redis.Redis, name: str = "nfs_a") -> StorageEntry:
    return index_registry.read(index).storages[name]


def occupy(index: redis.Redis, storage: Storage, size: int = 4096) -> None:
    """Make the index say that one serving block of an instance lies on the storage."""
    make_group()
    entry = make_instance()
    ref = 4 << stats.REF_SHIFT | storage.number
    index.hset(keyspace.instance(entry.number, 0), mapping={f"b:{ref}:s": size, f"n:{ref}:s": 1})


def check(name: str, is_ok: bool, message: str = "") -> bool:
    return storage_set_health(name=name, is_ok=is_ok, message=message, checked_at=timezone.now())


def test_settings_change_is_published(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True, "weight": 7})
    entry = published(index)
    assert (entry.is_draining, entry.weight, entry.version, entry.is_writable) == (True, 7, 2, False)


def test_partial_spec_keeps_the_rest(tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    changed = storage_update(acting=ADMIN, name="nfs_a", spec={"key_count_per_file": 4})
    assert changed.spec == {**storage.spec, "key_count_per_file": 4}


def test_stale_version(tmp_path: Path) -> None:
    make_storage(tmp_path)
    storage_update(acting=ADMIN, name="nfs_a", settings={"weight": 1}, expected_version=1)
    change = {"name": "nfs_a", "settings": {"weight": 2}, "expected_version": 1}
    assert refused(storage_update, **change) is Code.CONFLICT
    assert Storage.objects.get().weight == 1


def test_change_during_the_probe_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_storage(tmp_path)

    def slow(*_: object, **__: object) -> probes.ProbeResult:
        Storage.objects.update(version=9)
        return probes.ProbeResult(True)

    monkeypatch.setattr("apps.storages.services.probe", slow)
    storage_set_enabled(acting=ADMIN, name="nfs_a", is_enabled=False)
    assert refused(storage_set_enabled, name="nfs_a", is_enabled=True) is Code.CONFLICT


def test_enabling_makes_the_folder_and_is_usable_at_once(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path, is_enabled=False)
    assert not (tmp_path / "nfs_a").exists()
    assert Storage.objects.get().health_state == "unknown"
    storage_set_enabled(acting=ADMIN, name="nfs_a", is_enabled=True)
    assert (tmp_path / "nfs_a").is_dir()
    assert published(index).is_writable


def test_moving_is_refused_while_blocks_are_there(index: redis.Redis, tmp_path: Path) -> None:
    occupy(index, make_storage(tmp_path))
    move = {"name": "nfs_a", "spec": {"root_path": str(tmp_path / "new")}}
    assert refused(storage_update, **move) is Code.IN_USE
    assert refused(storage_remove, name="nfs_a", is_forced=True) is Code.IN_USE
    storage_update(acting=ADMIN, is_forced=True, **move)
    assert published(index).spec["root_path"] == f"{tmp_path}/new/"


def test_blocks_of_a_removed_instance_still_hold_their_storage(
    index: redis.Redis, tmp_path: Path, sent: list[str]
) -> None:
    occupy(index, make_storage(tmp_path))
    instance_remove(acting=ADMIN, instance_id="model-a")
    assert refused(storage_remove, name="nfs_a", is_forced=True) is Code.IN_USE
    index.delete(keyspace.LEAVING)
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)


def test_removal_needs_the_index(tmp_path: Path) -> None:
    make_storage(tmp_path)
    assert refused(storage_remove, name="nfs_a") is Code.NOT_READY


def test_removal_of_a_named_storage(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    assert refused(storage_remove, name="nfs_a") is Code.IN_USE
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    assert index_registry.read(index).groups["chat"].storage_candidates == ("nfs_a",)


def test_hysteresis(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    version = index_registry.read_version(index)
    assert check("nfs_a", False, "slow")
    assert index_registry.read_version(index) == version, "nothing changed for the data plane"
    assert not check("nfs_a", False, "gone")
    assert (published(index).is_served, published(index).unavailable_reason) == (False, "gone")
    assert check("nfs_a", True)
    assert published(index).is_served
    assert check("nfs_a", False)
    turns = StorageHealthChange.objects.order_by("id").values_list("is_available", "message")
    assert list(turns) == [(True, ""), (False, "gone"), (True, "")]


def test_health_does_not_touch_the_operators_version(tmp_path: Path) -> None:
    before = make_storage(tmp_path)
    check("nfs_a", False)
    check("nfs_a", False)
    after = Storage.objects.get()
    assert (after.version, after.updated_at) == (before.version, before.updated_at)
    assert not check("nobody", True)


def test_check_task_sees_a_lost_folder_in_one_run(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.storages.tasks._SECOND_LOOK_SECONDS", 0.01)
    make_storage(tmp_path, "a")
    make_storage(tmp_path, "b")
    make_storage(tmp_path, "off", is_enabled=False)
    (tmp_path / "b").rename(tmp_path / "gone")
    assert check_storages() == {"a": True, "b": False}
    assert not (tmp_path / "b").exists(), "a check must not write below a lost mount"
    assert (published(index, "a").is_served, published(index, "b").is_served) == (True, False)
    (tmp_path / "gone").rename(tmp_path / "b")
    assert check_storages() == {"a": True, "b": True}
    assert [path.name for path in (tmp_path / "a").iterdir()] == [marker.MARKER]


def test_hung_storage_does_not_hang_the_checker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = make_storage(tmp_path).entry()
    release = threading.Event()

    def hang(*_: object) -> probes.ProbeResult:
        release.wait(20)
        return probes.ProbeResult(True)

    monkeypatch.setitem(KINDS, StorageType.NFS, replace(KINDS[StorageType.NFS], probe=hang))
    started = time.monotonic()
    assert probe(entry, seconds=0.05).message == "no answer within 0.05 s"
    before = threading.active_count()
    assert probe(entry, seconds=0.05).message == "an earlier check of it still hangs"
    assert threading.active_count() == before
    assert time.monotonic() - started < 2
    release.set()


def test_a_root_without_its_marker_is_not_the_storage(tmp_path: Path) -> None:
    """What an unmounted directory looks like: writing there would fill the local disk."""
    entry = make_storage(tmp_path).entry()
    root = Path(entry.spec["root_path"])
    assert probe(entry, may_create_root=True).is_ok
    (root / marker.MARKER).unlink()
    assert "is the storage mounted?" in probe(entry).message
    assert probe(entry, may_create_root=True).is_ok


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_storage_leaves_placement_only(
    tmp_path: Path, index: redis.Redis, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    make_storage(tmp_path, "full")

    def no_room(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setitem(KINDS, StorageType.NFS, replace(KINDS[StorageType.NFS], probe=no_room))
    check_storages()
    entry = published(index, "full")
    assert (entry.is_served, entry.is_writable) == (True, False)
    assert os.strerror(number) in entry.refusal
    monkeypatch.undo()
    check_storages()
    assert published(index, "full").is_writable


@pytest.mark.parametrize(
    ("kind", "spec", "reason"),
    [
        (StorageType.HF3FS, {"mountpoint": "/nowhere/mnt", "root_dir": "kv"}, "mountpoint does not exist"),
        (StorageType.MOONCAKE, {"master_service_entry": "127.0.0.1:1"}, "cannot hold blocks"),
        (StorageType.TAIR_MEMPOOL, {"domain": "x"}, "cannot hold blocks"),
    ],
)
def test_probe_says_why(kind: StorageType, spec: dict[str, str], reason: str) -> None:
    result = probe(StorageEntry(name="s", number=1, type=kind, spec=spec), may_create_root=True)
    assert not result.is_ok
    assert reason in result.message
