"""Health, trials, removals and bulk changes of storages over REST (docs/api.md)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.common.actor import Role
from apps.storages.models import Storage
from apps.storages.services import bulk, storage_update
from apps.storages.usage import RecentUsage
from tests.apps.conftest import Api
from tests.apps.storages.looks import check, occupy, published, vacate
from tests.apps.storages.test_segments import Pool, seen
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
STORAGES = "/api/v1/storages/"
INCIDENTS = "/api/v1/health/incidents/"
TRIAL = f"{STORAGES}test-connection/"


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No throttle counts on from the test before, and no usage is that of its index."""
    cache.clear()
    monkeypatch.setattr("apps.storages.presentation._recent", RecentUsage(seconds=0))


def trial(root: Path, **more: Any) -> dict[str, Any]:
    return {"type": "nfs", "spec": {"root_path": str(root)}, **more}


def test_a_trial_leaves_nothing_behind(api: Api, tmp_path: Path) -> None:
    client = api(Role.OPERATOR)
    before = sorted(tmp_path.rglob("*"))
    answer = client.post(TRIAL, trial(tmp_path / "a" / "b"))
    body = answer.json()
    assert answer.status_code == 200
    assert (body["ok"], body["message"]) == (True, "the folder is made when the storage is added")
    assert body["capacity_bytes"] > 0
    assert body["latency_ms"] > 0
    assert (
        client.post(TRIAL, trial(tmp_path)).json()["message"]
        == "its marker is made when the storage is added"
    )
    assert sorted(tmp_path.rglob("*")) == before
    assert not Storage.objects.exists()
    assert client.post(TRIAL, trial(tmp_path / "c", create=True)).json()["ok"]
    assert (tmp_path / "c").is_dir()


def test_a_trial_says_what_is_wrong(api: Api, tmp_path: Path) -> None:
    client = api(Role.OPERATOR)
    (tmp_path / "file").write_text("no folder")
    refused = client.post(TRIAL, trial(tmp_path / "file" / "below")).json()
    assert refused["ok"] is False
    assert "Not a directory" in refused["message"]
    mount = {"type": "hf3fs", "spec": {"mountpoint": "/nowhere/mnt", "root_dir": "kv"}}
    assert "the mountpoint does not exist" in client.post(TRIAL, mount).json()["message"]
    bad = client.post(TRIAL, {"type": "nfs", "spec": {"root_path": "relative"}})
    assert (bad.status_code, bad.json()["field"]) == (400, "spec.root_path")
    assert client.post(TRIAL, {"type": "nfs"}).json()["field"] == "spec"


def test_trials_are_for_operators_and_few_at_a_time(api: Api, tmp_path: Path) -> None:
    assert api(Role.VIEWER).post(TRIAL, trial(tmp_path)).status_code == 403
    assert api(Role.OPERATOR, groups=["chat"]).post(TRIAL, trial(tmp_path)).status_code == 403
    client = api(Role.OPERATOR)
    codes = [client.post(TRIAL, trial(tmp_path)).status_code for _ in range(32)]
    assert codes == [200] * 30 + [429] * 2
    last = client.post(TRIAL, trial(tmp_path)).json()
    assert last["code"] == "too_many_requests"
    assert client.get(STORAGES).status_code == 200, "the rest goes on"


def test_a_saved_storage_is_tried(api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    client = api(Role.OPERATOR)
    address = f"{STORAGES}nfs_a/test-connection/"
    assert client.post(address).json()["ok"]
    (tmp_path / "nfs_a").rename(tmp_path / "elsewhere")
    assert "is the storage mounted?" in client.post(address).json()["message"], "as it is, it must be there"
    moved = client.post(address, {"spec": {"root_path": str(tmp_path / "elsewhere")}}).json()
    assert (moved["ok"], moved["message"]) == (True, "")
    assert client.post(f"{STORAGES}nobody/test-connection/").status_code == 404
    assert Storage.objects.get().failures_in_row == 0, "a trial is no check"


def test_samples_and_turns(api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    now = timezone.now()
    for seconds, is_ok in ((30, True), (20, False), (10, False)):
        check("nfs_a", is_ok, "" if is_ok else "slow", at=now - timedelta(seconds=seconds), latency_ms=5.0)
    client = api(Role.VIEWER)
    found = client.get(
        f"{STORAGES}nfs_a/health-samples/",
        {"bucket_seconds": 3600, "since": (now - timedelta(days=1)).isoformat()},
    )
    points = found.json()["points"]
    assert sum(point["checks"] for point in points) == 3
    assert sum(point["failures"] for point in points) == 2
    assert {point["avg_ms"] for point in points} == {5.0}
    turns = client.get(f"{STORAGES}nfs_a/health-changes/").json()["results"]
    assert [(turn["event"], turn["message"]) for turn in turns] == [
        ("unavailable", "slow"),
        ("available", ""),
    ]
    for query, field in (
        ({"bucket_seconds": 0}, "bucket_seconds"),
        ({"since": "yesterday"}, "since"),
        ({"since": now.isoformat(), "until": now.isoformat()}, "since"),
        ({"bucket_seconds": 1, "since": "2020-01-01T00:00:00Z"}, "bucket_seconds"),
    ):
        answer = client.get(f"{STORAGES}nfs_a/health-samples/", query)
        assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_incidents(api: Api, tmp_path: Path) -> None:
    now = timezone.now()
    for name in ("a", "b"):
        make_storage(tmp_path, name)
        for seconds in (100, 90):
            check(name, False, f"{name} is gone", at=now - timedelta(seconds=seconds))
    for seconds in (60, 50):
        check("a", True, at=now - timedelta(seconds=seconds))
    client = api(Role.VIEWER)

    def found(**query: Any) -> list[tuple[str, bool]]:
        rows = client.get(INCIDENTS, query).json()["results"]
        return [(row["storage"], row["ended_at"] is None) for row in rows]

    assert sorted(found()) == [("a", False), ("b", True)]
    assert found(open="true") == [("b", True)]
    assert found(storage="a") == [("a", False)]
    assert found(since=(now - timedelta(seconds=40)).isoformat()) == [("b", True)]
    assert found(until=(now - timedelta(seconds=95)).isoformat()) == []
    (ended,) = client.get(INCIDENTS, {"open": "false"}).json()["results"]
    assert (ended["kind"], ended["reason"], round(ended["duration_seconds"])) == (
        "unavailable",
        "a is gone",
        40,
    )
    assert client.get(INCIDENTS, {"kind": "bored"}).status_code == 400
    with CaptureQueriesContext(connection) as queries:
        client.get(INCIDENTS)
    assert len(queries) == 3, "token, count, page"


def test_removal_and_what_can_be_done_about_it(api: Api, index: redis.Redis, tmp_path: Path) -> None:
    occupy(index, make_storage(tmp_path))
    client = api(Role.OPERATOR)
    held = client.delete(f"{STORAGES}nfs_a/")
    assert (held.status_code, held.json()["code"]) == (409, "in_use")
    leaving = client.delete(f"{STORAGES}nfs_a/?force=true")
    assert leaving.status_code == 202
    body = leaving.json()
    assert (body["leaving"], body["departure"]["kind"], body["departure"]["blocks_left"]) == (
        True,
        "leaving",
        1,
    )
    assert [row["name"] for row in client.get(f"{STORAGES}?leaving=true").json()["results"]] == ["nfs_a"]
    denied = client.patch(f"{STORAGES}nfs_a/", {"weight": 2})
    assert (denied.status_code, denied.json()["code"]) == (409, "in_use")
    assert api(Role.VIEWER).post(f"{STORAGES}nfs_a/restore/").status_code == 403
    assert client.post(f"{STORAGES}nfs_a/restore/").json()["leaving"] is False
    assert published(index).is_writable
    client.delete(f"{STORAGES}nfs_a/?force=true")
    assert client.post(f"{STORAGES}nfs_a/abandon/").json()["abandoned"] is True
    assert client.post(f"{STORAGES}nfs_a/restore/").status_code == 409
    assert client.post(f"{STORAGES}nobody/abandon/").status_code == 404


def test_drain_shows_its_progress(api: Api, index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    occupy(index, storage, 8192)
    client = api(Role.OPERATOR)
    assert client.get(f"{STORAGES}nfs_a/").json()["departure"] is None
    drained = client.patch(f"{STORAGES}nfs_a/", {"draining": True}).json()["departure"]
    assert (drained["kind"], drained["bytes_left"], drained["progress_ratio"]) == ("draining", 8192, 0.0)
    Storage.objects.update(
        departing_from_bytes=32_768,
        departing_from_blocks=4,
        departing_mark_at=timezone.now() - timedelta(seconds=100),
        departing_mark_bytes=16_384,
    )
    shown = client.get(f"{STORAGES}nfs_a/").json()["departure"]
    assert (shown["progress_ratio"], shown["blocks_at_start"]) == (0.75, 4)
    assert shown["bytes_per_second"] == pytest.approx(82, abs=2)
    assert shown["eta_seconds"] == pytest.approx(100, abs=2)
    vacate(index)


def test_several_at_once(
    api: Api, index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        make_storage(tmp_path, name)
    client = api(Role.OPERATOR)

    def act(action: str, *names: str) -> list[tuple[str, bool, str]]:
        answer = client.post(f"{STORAGES}bulk/", {"action": action, "names": names})
        assert answer.status_code == 200, answer.json()
        return [(row["name"], row["ok"], row["code"]) for row in answer.json()["results"]]

    assert act("drain", "a", "nobody", "b", "a") == [
        ("a", True, ""),
        ("nobody", False, "not_found"),
        ("b", True, ""),
    ]
    assert published(index, "a").is_draining
    act("undrain", "a")
    assert published(index, "a").is_writable
    act("disable", "a", "b")
    assert not published(index, "b").is_enabled
    (tmp_path / "b").rename(tmp_path / "gone")
    (tmp_path / "b").write_text("in the way")
    client.patch(f"{STORAGES}b/", {"check_storage_available_when_open": True})
    assert act("enable", "a", "b") == [("a", True, ""), ("b", False, "io_error")]
    monkeypatch.setattr(bulk, "MOST_SECONDS", 0.0)
    late = client.post(f"{STORAGES}bulk/", {"action": "drain", "names": ["a"]}).json()["results"]
    assert [(one["ok"], one["code"]) for one in late] == [(False, "too_many_requests")]
    assert client.post(f"{STORAGES}bulk/", {"action": "explode", "names": ["a"]}).json()["field"] == "action"
    assert client.post(f"{STORAGES}bulk/", {"action": "drain", "names": []}).status_code == 400
    assert client.post(f"{STORAGES}bulk/", {"action": "drain", "names": ["x"] * 101}).status_code == 400
    assert api(Role.VIEWER).post(f"{STORAGES}bulk/", {"action": "drain", "names": ["a"]}).status_code == 403


def test_segments_are_shown_in_one_query(api: Api, index: redis.Redis) -> None:
    pool = Pool()
    pool.check(seen("a"), seen("b"))
    lost = Storage.objects.get().segments.get(node_id="b").number
    occupy(index, Storage.objects.get(), number=lost)
    pool.check(seen("a"), seen("b", "2"))
    client = api(Role.VIEWER)
    client.get(f"{STORAGES}pool/")
    with CaptureQueriesContext(connection) as queries:
        body = client.get(f"{STORAGES}pool/").json()
    assert len(queries) == 4, "token, storage, segments, groups"
    assert [(s["node_id"], s["state"], s["usage"]["blocks"]) for s in body["segments"]] == [
        ("a", "available", 0),
        ("b", "lost", 1),
        ("b", "available", 0),
    ]
    assert body["usage"]["blocks"] == 1


def test_names_of_addresses_are_taken(api: Api, tmp_path: Path) -> None:
    for name in ("bulk", "test-connection"):
        answer = api().post(STORAGES, {"name": name, "type": "nfs", "spec": {"root_path": str(tmp_path)}})
        assert (answer.status_code, answer.json()["field"]) == (400, "name")


def test_opening_again_needs_a_storage_that_works(api: Api, index: redis.Redis, tmp_path: Path) -> None:
    """`check_storage_available_when_open` holds for every way of opening one."""
    make_storage(tmp_path, check_storage_available_when_open=True)
    make_group()
    client = api(Role.OPERATOR)
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True})
    (tmp_path / "nfs_a").rename(tmp_path / "gone")
    (tmp_path / "nfs_a").write_text("in the way")
    address = f"{STORAGES}nfs_a/"
    assert client.patch(address, {"draining": False}).json()["code"] == "io_error"
    assert client.patch(f"{address}?force=true", {"draining": False}).status_code == 200
    client.patch(address, {"enabled": False})
    assert client.patch(address, {"enabled": True}).json()["code"] == "io_error"
    moved = client.patch(address, {"enabled": True, "spec": {"root_path": str(tmp_path / "gone")}})
    assert moved.status_code == 200
    occupy(index, Storage.objects.get())
    client.delete(f"{address}?force=true")
    (tmp_path / "gone").rename(tmp_path / "away")
    (tmp_path / "gone").write_text("in the way")
    assert client.post(f"{address}restore/").json()["code"] == "io_error"
    assert client.post(f"{address}restore/?force=true").status_code == 200
