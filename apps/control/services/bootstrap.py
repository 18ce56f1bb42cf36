"""The first objects of an installation. Each step is left alone where it was already done."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django_celery_beat.models import IntervalSchedule, PeriodicTask

from apps.accounts.selectors import account_list
from apps.accounts.services import account_create
from apps.common.actor import Actor, Role
from apps.common.schedules import declared_schedules
from apps.common.selectors import is_step_done
from apps.common.services import step_done
from apps.instances.services import group_create
from apps.storages.services import storage_add
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import CachePolicy, MetaIndexerSettings, Quota, ReclaimSettings
from kvcm_platform.core.types import PreferStrategy, ReclaimPolicy, StorageType
from kvcm_platform.core.validation.groups import GroupSettings
from kvcm_platform.core.validation.storages import StorageSettings
from kvcm_platform.settings.env import Env

_FIRST_OBJECTS = "first objects"

DEFAULT_STORAGE = "nfs_01"
DEFAULT_GROUP = GroupSettings(
    storage_candidates=(DEFAULT_STORAGE,),
    quota=Quota(
        capacity_bytes=30_000_000_000,
        per_type=dict.fromkeys((StorageType.NFS, StorageType.HF3FS, StorageType.TAIR_MEMPOOL), 10000000000),
    ),
    prefer_strategy=PreferStrategy.PREFER_3FS,
    reclaim=ReclaimSettings(policy=ReclaimPolicy.LRU, used_ratio=0.8, delay_before_delete_ms=1000),
    meta_indexer=MetaIndexerSettings(
        max_key_count=1_000_000,
        mutex_shard_num=16,
        batch_key_size=16,
        storage_type="local",
        cache_policy=CachePolicy(capacity_mb=10_000, type="LRU", shard_bits=0),
    ),
    max_instance_count=100,
    global_quota_group_name="default_quota_group",
)
"""The start-up configuration that the reference server carries in itself (WIRE.md 2.8)."""


@dataclass(frozen=True, slots=True)
class FirstLogin:
    """The first admin account. `password` is empty unless it was drawn by this very run."""

    username: str
    is_new: bool
    password: str = ""


def bootstrap(*, env: Env) -> FirstLogin:
    """Make the first admin account, storage, group and schedules.

    Storage and group are made once: an operator who removed them does not get them back.
    """
    acting = Actor.system("bootstrap")
    login = _first_account(acting, env)
    if not is_step_done(_FIRST_OBJECTS):
        _first_objects(acting, env)
        step_done(name=_FIRST_OBJECTS)
    _schedules()
    return login


def _first_account(acting: Actor, env: Env) -> FirstLogin:
    username = env["KVCM_ADMIN_USERNAME"]
    if account_list().exists():
        return FirstLogin(username=username, is_new=False)
    given = env["KVCM_ADMIN_PASSWORD"]
    password = given or secrets.token_urlsafe(12)
    account_create(
        acting=acting, username=username, password=password, role=Role.ADMIN, is_password_checked=False
    )
    return FirstLogin(username=username, is_new=True, password="" if given else password)


def _first_objects(acting: Actor, env: Env) -> None:
    """Storage and group; an interrupted earlier run may have made one of them already."""
    with _tolerating_duplicates():
        storage_add(
            acting=acting,
            name=DEFAULT_STORAGE,
            kind=StorageType.NFS,
            spec={"root_path": f"{env.data_dir / DEFAULT_STORAGE}/", "key_count_per_file": 8},
            settings=StorageSettings(),
        )
    with _tolerating_duplicates():
        group_create(acting=acting, name="default", settings=DEFAULT_GROUP)


@contextmanager
def _tolerating_duplicates() -> Iterator[None]:
    try:
        yield
    except DomainError as error:
        if error.code is not Code.DUPLICATE:
            raise


def _schedules() -> None:
    """Rows for what the apps bring along; rows that exist may carry an operator's changes."""
    for schedule in declared_schedules():
        every, _ = IntervalSchedule.objects.get_or_create(
            every=schedule.every_seconds, period=IntervalSchedule.SECONDS
        )
        PeriodicTask.objects.get_or_create(
            name=schedule.name,
            defaults={
                "task": schedule.task,
                "interval": every,
                "kwargs": json.dumps(schedule.kwargs),
                "description": schedule.description,
                # A beat that was away must not flood the queue with what it missed.
                "expire_seconds": max(10, 2 * schedule.every_seconds),
            },
        )
