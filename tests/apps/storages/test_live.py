"""The live topic of storages (how it is sent: tests/apps/live/test_declared_topics.py)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.common.actor import Actor, Role
from apps.storages import live
from apps.storages.api.serializers import StorageOutput
from apps.storages.models import Storage
from tests.apps.conftest import Api
from tests.apps.storages.looks import check, occupy
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_rest_shows_but_the_spec(index: redis.Redis, tmp_path: Path, api: Api) -> None:
    storage = make_storage(tmp_path)
    occupy(index, storage)
    for _ in range(2):
        check("nfs_a", False, "it hangs")
    ago = timezone.now() - timedelta(seconds=100)
    Storage.objects.update(
        departing_since=ago,
        is_draining=True,
        departing_from_bytes=8192,
        departing_mark_at=ago,
        departing_mark_bytes=8192,
    )
    (row,) = live.storages_picture()["storages"]
    assert set(row) == set(StorageOutput().fields) - {"spec"}
    (rest,) = api(Role.VIEWER).get("/api/v1/storages/").json()["results"]
    moving = ("departure", "spec")
    assert {name: row[name] for name in row if name not in moving} == {
        name: rest[name] for name in rest if name not in moving
    }
    assert row["health"]["state"] == "failing" and row["usage"]["used_bytes"] == 4096
    assert row["departure"]["progress_ratio"] == 0.5 and row["departure"]["eta_seconds"] > 90


def test_names_of_other_groups_are_left_out(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group("chat")
    make_group("search")
    picture = live.storages_picture()
    assert picture["storages"][0]["groups"] == ["chat", "search"] and picture["is_complete"]
    limited = Actor(name="olga", role=Role.VIEWER, groups=frozenset({"chat"}))
    assert live.narrowed(picture, limited)["storages"][0]["groups"] == ["chat"]
    assert live.narrowed(picture, Actor(name="ada", role=Role.VIEWER)) is picture


def test_the_index_that_is_away_leaves_the_rest(tmp_path: Path) -> None:
    make_storage(tmp_path)
    (row,) = live.storages_picture()["storages"]
    assert row["usage"] is None and row["health"]["state"] == "ok"
