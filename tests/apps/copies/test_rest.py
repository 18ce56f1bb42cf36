"""Migrations on request, over REST and in the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.common.queue import COPIES_TASK
from apps.copies.models import CopyRun
from apps.copies.services.rounds import REQUESTS_AT_ONCE
from apps.copies.tasks import run_copies
from kvcm_platform.core.registry import InstanceEntry
from tests.apps.conftest import Api
from tests.apps.copies.conftest import BLOCK, Read, Write
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/cache/migrations/"
KEYS = range(1, 41)


def body(**more: Any) -> dict[str, Any]:
    return {"source": "nfs_a", "target": "nfs_b", "instance_group": "chat", **more}


def test_a_misspelled_member_moves_nothing(api: Api, sent: list[str], write: Write) -> None:
    write(KEYS)
    answer = api(Role.OPERATOR).post(URL, body(dryrun=True))
    assert (answer.status_code, answer.json()["field"]) == (400, "dryrun")
    assert (sent, CopyRun.objects.count()) == ([], 0)


def test_from_request_to_done(api: Api, sent: list[str], write: Write, read: Read) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    made = client.post(URL, body())
    assert made.status_code == 201
    run = made.json()
    assert (run["state"], run["planned_blocks"], run["planned_bytes"]) == ("queued", 40, 40 * BLOCK)
    assert sent == [COPIES_TASK]
    assert AuditEntry.objects.filter(action="migration.request", object_name="chat").count() == 1
    run_copies()
    run = client.get(f"{URL}{run['id']}/").json()
    assert (run["state"], run["stop"], run["copied_blocks"], run["copied_bytes"]) == (
        "done",
        "done",
        40,
        40 * BLOCK,
    )
    assert (run["direction"], run["failed_blocks"], run["eta_seconds"]) == ("request", 0, None)
    assert run["ended_at"] and run["started_at"] and run["busy_seconds"] > 0
    assert read(KEYS) == {"nfs_b": 40}
    assert client.get(URL, {"state": "done"}).json()["count"] == 1
    assert client.get(URL, {"state": "queued"}).json()["count"] == 0


def test_a_dry_run_moves_nothing(api: Api, sent: list[str], write: Write, read: Read) -> None:
    write(KEYS)
    shown = api(Role.OPERATOR).post(URL, body(dry_run=True, instance_id="model-a"))
    assert shown.status_code == 200
    figures = shown.json()
    assert (figures["moving_blocks"], figures["moving_bytes"], figures["is_complete"]) == (
        40,
        40 * BLOCK,
        True,
    )
    assert figures["shares"] == [
        {
            "measure": "storage",
            "used_bytes": 40 * BLOCK,
            "own_bytes": 40 * BLOCK,
            "capacity_bytes": 100 * BLOCK,
            "ratio": 0.4,
        }
    ]
    assert (figures["ages"][0]["least_seconds"], figures["ages"][0]["moving_blocks"]) == (0, 40)
    assert not CopyRun.objects.exists()
    assert sent == []
    assert read(KEYS) == {"nfs_a": 40}


def test_only_what_is_idle(api: Api, sent: list[str], write: Write, read: Read) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    assert client.post(URL, body(scope="idle")).json()["field"] == "idle_seconds"
    client.post(URL, body(scope="idle", idle_seconds=3600))
    run_copies()
    assert CopyRun.objects.get().state == "done"
    assert read(KEYS) == {"nfs_a": 40}


def test_a_cancelled_migration_stays_where_it_is(api: Api, sent: list[str], write: Write, read: Read) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    run_id = client.post(URL, body()).json()["id"]
    assert client.post(f"{URL}{run_id}/cancel/").json()["state"] == "cancelled"
    assert client.post(f"{URL}{run_id}/cancel/").status_code == 409
    run_copies()
    assert read(KEYS) == {"nfs_a": 40}


def test_one_that_runs_is_cancelled_after_its_wave(
    api: Api, sent: list[str], write: Write, read: Read
) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    run_id = client.post(URL, body(max_bytes_per_second=8 * BLOCK)).json()["id"]
    CopyRun.objects.update(state="running")
    assert client.post(f"{URL}{run_id}/cancel/").json()["cancel_requested"] is True
    run_copies()
    run = client.get(f"{URL}{run_id}/").json()
    assert (run["state"], run["stop"], run["copied_blocks"]) == ("cancelled", "cancelled", 0)


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"source": ""}, 400, "source"),
        ({"target": "nfs_a"}, 400, "target"),
        ({"target": "nowhere"}, 400, "target"),
        ({"instance_group": ""}, 400, "instance_group"),
        ({"instance_group": "other"}, 404, "name"),
        ({"instance_id": "other"}, 404, "instance_id"),
        ({"max_bytes": -1}, 400, "max_bytes"),
        ({"retention": "forget"}, 400, "retention"),
    ],
)
def test_bad_requests(
    api: Api, sent: list[str], model: InstanceEntry, change: dict[str, Any], status: int, field: str
) -> None:
    answer = api(Role.OPERATOR).post(URL, body(**change))
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert sent == []


def test_the_same_way_twice(api: Api, sent: list[str], model: InstanceEntry) -> None:
    client = api(Role.OPERATOR)
    assert client.post(URL, body()).status_code == 201
    assert client.post(URL, body()).status_code == 409


def test_requests_that_cannot_go_on_keep_no_other_waiting(
    api: Api, sent: list[str], write: Write, read: Read, tmp_path: Path
) -> None:
    """As many as a round takes, whose source is off, before one that could move."""
    write(KEYS)
    client = api(Role.OPERATOR)
    make_storage(tmp_path, "nfs_c", is_enabled=False)
    stuck = {"group_name": "chat", "source": "nfs_c", "target": "nfs_b", "retention": "keep_both"}
    CopyRun.objects.bulk_create(
        CopyRun(**stuck, direction="request", state="queued", trigger="t") for _ in range(REQUESTS_AT_ONCE)
    )
    wanted = client.post(URL, body()).json()["id"]
    run_copies()
    run_copies()
    assert client.get(f"{URL}{wanted}/").json()["state"] == "done"
    assert CopyRun.objects.filter(source="nfs_c", detail="nfs_c: disabled").count() == REQUESTS_AT_ONCE


def test_requests_of_what_was_removed_are_over(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry, tmp_path: Path
) -> None:
    client = api(Role.OPERATOR)
    make_storage(tmp_path, "nfs_c")
    make_group("idle")
    ways = [body(instance_group="idle"), body(target="nfs_c")]
    ids = [client.post(URL, way).json()["id"] for way in ways]
    assert client.delete("/api/v1/instance-groups/idle/").status_code == 204
    assert client.delete("/api/v1/storages/nfs_c/").status_code == 204
    run_copies()
    runs = [client.get(f"{URL}{run_id}/").json() for run_id in ids]
    assert [run["state"] for run in runs] == ["failed", "failed"]
    assert [run["detail"] for run in runs] == ["instance group idle was removed", "storage nfs_c was removed"]


def test_who_may_what(api: Api, sent: list[str], model: InstanceEntry) -> None:
    assert api(None).get(URL).status_code == 401
    assert api(Role.VIEWER).post(URL, body()).status_code == 403
    assert api(Role.OPERATOR, groups=["other"]).post(URL, body()).status_code == 404
    run_id = api(Role.OPERATOR).post(URL, body()).json()["id"]
    assert api(Role.VIEWER).get(URL).json()["count"] == 1
    stranger = api(Role.OPERATOR, groups=["other"])
    assert stranger.get(URL).json()["count"] == 0
    assert stranger.post(f"{URL}{run_id}/cancel/").status_code == 404


def test_the_list_needs_the_same_queries_however_long(
    api: Api, sent: list[str], model: InstanceEntry
) -> None:
    client = api(Role.VIEWER)

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            assert client.get(URL).status_code == 200
        return len(made)

    def row() -> CopyRun:
        names = {"group_name": "chat", "source": "nfs_a", "target": "nfs_b"}
        return CopyRun(direction="request", retention="keep_both", trigger="t", state="done", **names)

    row().save()
    queries()  # the first one of a token notes that it is used
    few = queries()
    CopyRun.objects.bulk_create(row() for _ in range(30))
    assert queries() == few


def test_a_policy_runs_by_itself_and_is_on_record(
    api: Api, sent: list[str], write: Write, read: Read, index: redis.Redis
) -> None:
    client = api(Role.OPERATOR)
    preview = f"{URL}preview/"
    assert client.get(preview, {"instance_group": "chat"}).json()["field"] == "migration"
    for begin in range(1, 101, 10):
        write(range(begin, begin + 10))
    policy = {"source": "nfs_a", "target": "nfs_b", "trigger_ratio": 0.8, "low_ratio": 0.5}
    assert client.patch("/api/v1/instance-groups/chat/", {"migration": policy}).status_code == 200
    figures = client.get(preview, {"instance_group": "chat"}).json()
    assert (figures["moving_blocks"], figures["obstacle"]) == (50, "")
    assert sum(one["blocks"] for one in figures["ages"]) == 100
    run_copies()
    run_copies()
    assert read(range(1, 101)) == {"nfs_a": 50, "nfs_b": 50}
    (run,) = client.get(URL).json()["results"]
    assert (run["direction"], run["state"], run["copied_blocks"]) == ("demotion", "done", 50)
    assert run["trigger"] == "policy: nfs_a above 80%"
    metrics = client.get("/metrics").content.decode()
    label = '{direction="demotion",instance_group="chat"}'
    assert f"kvcm_migration_copied_blocks_total{label} 50.0" in metrics


def test_a_storage_that_fails_keeps_the_work(
    api: Api, sent: list[str], write: Write, read: Read, tmp_path
) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    run_id = client.post(URL, body()).json()["id"]
    assert client.patch("/api/v1/storages/nfs_b/", {"enabled": False}).status_code == 200
    run_copies()
    run = client.get(f"{URL}{run_id}/").json()
    assert (run["state"], run["detail"]) == ("queued", "nfs_b: disabled")
    assert client.patch("/api/v1/storages/nfs_b/", {"enabled": True}).status_code == 200
    run_copies()
    assert client.get(f"{URL}{run_id}/").json()["state"] == "done"
    assert read(KEYS) == {"nfs_b": 40}
