"""Storages through their services: publication, probes, moves, removal."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from apps.instances.services import instance_remove
from apps.storages.models import Storage
from apps.storages.services import storage_remove, storage_set_enabled, storage_update
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.storage import probe as probes
from tests.apps.storages.looks import occupy, published
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def refused(work: object, **arguments: object) -> Code:
    with pytest.raises(DomainError) as caught:
        work(acting=ADMIN, **arguments)  # type: ignore[operator]
    return caught.value.code


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

    monkeypatch.setattr("apps.storages.services.opening.probe", slow)
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
    assert refused(storage_remove, name="nfs_a") is Code.IN_USE
    storage_update(acting=ADMIN, is_forced=True, **move)
    assert published(index).spec["root_path"] == f"{tmp_path}/new/"


def test_blocks_of_a_removed_instance_still_hold_their_storage(
    index: redis.Redis, tmp_path: Path, sent: list[str]
) -> None:
    occupy(index, make_storage(tmp_path))
    instance_remove(acting=ADMIN, instance_id="model-a")
    assert refused(storage_remove, name="nfs_a", may_be_named=True) is Code.IN_USE
    index.delete(keyspace.LEAVING)
    assert storage_remove(acting=ADMIN, name="nfs_a", may_be_named=True) is None


def test_removal_needs_the_index(tmp_path: Path) -> None:
    make_storage(tmp_path)
    assert refused(storage_remove, name="nfs_a") is Code.NOT_READY


def test_removal_of_a_named_storage(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    assert refused(storage_remove, name="nfs_a") is Code.IN_USE
    assert storage_remove(acting=ADMIN, name="nfs_a", may_be_named=True) is None
    assert index_registry.read(index).groups["chat"].storage_candidates == ("nfs_a",)
