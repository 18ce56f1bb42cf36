"""Health of storages: rows of checks, full ones, hung ones, what is published of it."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from apps.storages.models import Storage, StorageHealthChange
from apps.storages.tasks import check_storages
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.index import registry as index_registry
from kvcm_platform.storage import marker
from kvcm_platform.storage import probe as probes
from kvcm_platform.storage.probe import probe
from kvcm_platform.storage.registry import KINDS
from tests.apps.storages.looks import check, published
from tests.factories.objects import make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def test_hysteresis(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    version = index_registry.read_version(index)
    assert check("nfs_a", False, "slow")
    assert index_registry.read_version(index) == version, "nothing changed for the data plane"
    assert not check("nfs_a", False, "gone")
    assert (published(index).is_served, published(index).unavailable_reason) == (False, "gone")
    assert not check("nfs_a", True), "one good check is no proof"
    assert not check("nfs_a", False)
    assert not check("nfs_a", True)
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


def test_check_task_sees_a_lost_folder_in_one_run(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.storages.services.checking.SECOND_LOOK_SECONDS", 0.01)
    make_storage(tmp_path, "a")
    make_storage(tmp_path, "b")
    make_storage(tmp_path, "off", is_enabled=False)
    (tmp_path / "b").rename(tmp_path / "gone")
    assert check_storages()["unavailable"] == ["b"]
    assert not (tmp_path / "b").exists(), "a check must not write below a lost mount"
    assert (published(index, "a").is_served, published(index, "b").is_served) == (True, False)
    (tmp_path / "gone").rename(tmp_path / "b")
    assert check_storages()["unavailable"] == []
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
    assert time.monotonic() - started < 15
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
        (StorageType.MOONCAKE, {"master_http_entry": "127.0.0.1:1"}, "Connection refused"),
        (StorageType.TAIR_MEMPOOL, {"domain": "x"}, "not host:port"),
        (StorageType.TAIR_MEMPOOL, {"domain": "127.0.0.1:1"}, "127.0.0.1:1: "),
    ],
)
def test_probe_says_why(kind: StorageType, spec: dict[str, str], reason: str) -> None:
    result = probe(StorageEntry(name="s", number=1, type=kind, spec=spec), may_create_root=True)
    assert not result.is_ok
    assert reason in result.message
