"""The first objects of an installation (WIRE.md 2.8)."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import redis
from django.core.management import call_command
from django_celery_beat.models import PeriodicTask

from apps.accounts.models import User
from apps.control.services.bootstrap import bootstrap
from apps.instances.services import group_remove
from apps.storages.services import storage_remove
from kvcm_platform.core.types import PreferStrategy, ReclaimPolicy, StorageType
from kvcm_platform.index import registry as index_registry
from kvcm_platform.settings.env import Env
from tests.factories.actors import ADMIN

pytestmark = pytest.mark.django_db(transaction=True)


def env(tmp_path: Path, **variables: str) -> Env:
    return Env({"KVCM_DATA_DIR": str(tmp_path), **variables})


def test_first_objects(index: redis.Redis, tmp_path: Path) -> None:
    login = bootstrap(env=env(tmp_path))
    assert (login.username, login.is_new, len(login.password) >= 16) == ("admin", True, True)
    admin = User.objects.get()
    assert (admin.role, admin.check_password(login.password)) == ("admin", True)
    registry = index_registry.read(index)
    storage, group = registry.storages["nfs_01"], registry.groups["default"]
    assert storage.spec == {"root_path": f"{tmp_path}/nfs_01/", "key_count_per_file": 8}
    assert storage.is_writable
    assert group.storage_candidates == ("nfs_01",)
    assert group.quota.capacity_bytes == 30_000_000_000
    assert group.quota.per_type == dict.fromkeys(
        (StorageType.NFS, StorageType.HF3FS, StorageType.TAIR_MEMPOOL), 10_000_000_000
    )
    assert (group.max_instance_count, group.version) == (100, 1)
    assert (group.prefer_strategy, group.global_quota_group_name) == (
        PreferStrategy.PREFER_3FS,
        "default_quota_group",
    )
    assert (group.reclaim.policy, group.reclaim.used_ratio) == (ReclaimPolicy.LRU, 0.8)
    assert (group.reclaim.delay_before_delete_ms, group.meta_indexer.max_key_count) == (1000, 1_000_000)
    assert group.meta_indexer.cache_policy.capacity_mb == 10_000


def test_again_changes_nothing(index: redis.Redis, tmp_path: Path) -> None:
    bootstrap(env=env(tmp_path))
    PeriodicTask.objects.filter(name="Check storages").update(enabled=False)
    version = index_registry.read_version(index)
    login = bootstrap(env=env(tmp_path, KVCM_ADMIN_PASSWORD="another"))
    assert (login.is_new, login.password) == (False, "")
    assert not User.objects.get().check_password("another")
    assert index_registry.read_version(index) == version
    assert not PeriodicTask.objects.get(name="Check storages").enabled


def test_what_operators_removed_stays_removed(index: redis.Redis, tmp_path: Path) -> None:
    bootstrap(env=env(tmp_path))
    group_remove(acting=ADMIN, name="default")
    storage_remove(acting=ADMIN, name="nfs_01")
    bootstrap(env=env(tmp_path))
    assert index_registry.read(index).groups == {}


def test_interrupted_first_run_is_completed(index: redis.Redis, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("apps.control.services.bootstrap.group_create", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            bootstrap(env=env(tmp_path))
    bootstrap(env=env(tmp_path))
    assert set(index_registry.read(index).groups) == {"default"}


def _interrupted(**_: object) -> None:
    raise KeyboardInterrupt


def test_given_password_is_not_printed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KVCM_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("KVCM_ADMIN_USERNAME", "root")
    monkeypatch.setenv("KVCM_ADMIN_PASSWORD", "pw")
    out = io.StringIO()
    call_command("bootstrap", stdout=out)
    assert "root" in out.getvalue()
    assert "/ pw" not in out.getvalue()
    assert User.objects.get(username="root").check_password("pw")


def test_schedules_name_tasks_that_exist() -> None:
    from kvcm_platform.celery import app

    app.loader.import_default_modules()
    from apps.common.schedules import declared_schedules

    names = {schedule.task for schedule in declared_schedules()}
    assert names
    assert names <= set(app.tasks)
