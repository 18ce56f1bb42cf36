"""The task of what is due, with what the database knows."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.db import DatabaseError
from django.utils import timezone

from apps.cache_index import tasks
from apps.common.models import PendingPublication, RegistryState
from kvcm_platform.index import keyspace
from tests.apps.storages.looks import occupy
from tests.factories.objects import make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def strays(index: redis.Redis) -> list[int]:
    """Numbers without a storage, as the task saw them."""
    index.delete(keyspace.STORAGE_STRAYS_LOOKED)
    tasks.run_duties()
    return json.loads(index.get(keyspace.STORAGE_STRAYS) or "[]")


def test_numbers_without_a_storage_are_seen(index: redis.Redis, tmp_path: Path) -> None:
    occupy(index, make_storage(tmp_path), number=999)
    assert strays(index) == [999]


def test_they_are_not_judged_while_the_registry_in_redis_is_behind(
    index: redis.Redis, tmp_path: Path
) -> None:
    occupy(index, make_storage(tmp_path), number=999)
    missed = PendingPublication.objects.create(version=1)
    PendingPublication.objects.update(created_at=timezone.now() - timedelta(seconds=1))
    assert strays(index) == []
    missed.delete()
    version = RegistryState.objects.get().version
    RegistryState.objects.update(version=version + 1)
    assert strays(index) == []
    RegistryState.objects.update(version=version)
    assert strays(index) == [999]


def test_what_is_due_is_done_without_the_database(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupy(index, make_storage(tmp_path), number=999)

    def away() -> int:
        raise DatabaseError("no database")

    monkeypatch.setattr(tasks, "registry_version", away)
    assert strays(index) == []
    assert tasks.run_duties()["failures"] == 0
