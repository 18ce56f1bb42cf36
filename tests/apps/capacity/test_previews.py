"""Previews say what then goes, and nothing goes by them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from apps.capacity.models import ReclaimRun
from apps.capacity.tasks import run_reclaim
from apps.common.actor import Role
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import homes, keyspace
from tests.apps.capacity.conftest import BLOCK, Held, Write
from tests.apps.conftest import Api
from tests.factories.objects import make_instance

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/capacity/preview/"
RUNS = "/api/v1/capacity/reclaim-runs/"
KEYS = range(1, 101)
FIRST, LATER = range(1, 41), range(101, 161)


def post(api: Api, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = api(Role.VIEWER).post(URL, body, format="json")
    assert answer.status_code == status, answer.json()
    return answer.json()


@pytest.fixture
def two(write: Write) -> None:
    """40 blocks of `model-a`, then 60 of `model-b`."""
    make_instance("model-b")
    write(FIRST)
    write(LATER, "model-b")


def test_what_a_request_would_take(
    api: Api, sent: list[str], index: redis.Redis, two: None, held: Held
) -> None:
    shown = post(api, kind="reclaim", instance_group="chat", blocks=50)
    assert (shown["planned_blocks"], shown["planned_bytes"]) == (50, 50 * BLOCK)
    assert (shown["evictable_blocks"], shown["evictable_bytes"]) == (100, 100 * BLOCK)
    assert shown["by_instance"] == [
        {"instance_id": "model-a", "blocks": 40, "bytes": 40 * BLOCK},
        {"instance_id": "model-b", "blocks": 10, "bytes": 10 * BLOCK},
    ]
    assert shown["by_storage"] == [{"storage": "nfs_a", "blocks": 50, "bytes": 50 * BLOCK}]
    assert (shown["used_before_bytes"], shown["used_after_bytes"]) == (100 * BLOCK, 50 * BLOCK)
    assert (shown["instance_group"], shown["is_complete"], shown["obstacle"]) == ("chat", True, "")
    assert shown["sentence"] == "100 KiB (50 blocks) of group chat would go, of 200 KiB that may."
    ages = shown["age_histogram"]
    assert sum(one["blocks"] for one in ages) == 100
    assert (ages[0]["idle_from_seconds"], ages[-1]["idle_to_seconds"]) == (0, None)
    first = shown["candidates"][0]
    assert (first["instance_id"], first["storage"]) == ("model-a", "nfs_a")
    assert isinstance(first["key"], str) and first["idle_seconds"] >= 0
    assert (held(FIRST), held(LATER, "model-b")) == (list(FIRST), list(LATER))
    assert (sent, index.exists(keyspace.RECLAIM_REQUESTS, keyspace.RECLAIM_OPEN)) == ([], 0)
    assert not ReclaimRun.objects.exists()


def test_a_dry_run_is_the_same_preview_and_the_run_then_does_it(
    api: Api, sent: list[str], two: None, held: Held
) -> None:
    body = {"instance_group": "chat", "percent": 25.0}
    client = api(Role.OPERATOR)
    dry = client.post(RUNS, {**body, "dry_run": True}, format="json")
    assert (dry.status_code, ReclaimRun.objects.count()) == (200, 0)
    run_id = client.post(RUNS, body, format="json").json()["id"]
    run_reclaim()
    run = client.get(f"{RUNS}{run_id}/").json()
    assert (run["chosen_blocks"], run["chosen_bytes"]) == (25, 25 * BLOCK)
    for name in ("by_instance", "by_storage", "used_before_bytes", "used_after_bytes"):
        assert run[name] == dry.json()[name], name
    assert (dry.json()["planned_blocks"], dry.json()["planned_bytes"]) == (25, 25 * BLOCK)


def test_within_one_instance(api: Api, two: None) -> None:
    shown = post(api, kind="reclaim", instance_id="model-b", percent=50)
    assert [(one["instance_id"], one["blocks"]) for one in shown["by_instance"]] == [("model-b", 30)]
    assert (shown["evictable_blocks"], shown["instance_group"]) == (60, "chat")
    assert shown["sentence"].startswith("60 KiB (30 blocks) of instance model-b would go")


def test_a_lower_quota_and_then_setting_it(
    api: Api, sent: list[str], model: InstanceEntry, write: Write, held: Held
) -> None:
    write(KEYS)
    quota = {"capacity_bytes": 50 * BLOCK}
    shown = post(api, kind="quota", instance_group="chat", quota=quota)
    # 0.8 of 50 blocks, less a twentieth of them: down to 37.5 blocks.
    assert (shown["planned_blocks"], shown["used_after_bytes"]) == (63, 37 * BLOCK)
    assert (shown["capacity_bytes"], shown["scopes"][0]["scope"]) == (50 * BLOCK, "group")
    assert shown["sentence"] == (
        "Lowering the quota of group chat to 100 KiB frees about 126 KiB (63 blocks): from 200 KiB used to"
        " 74 KiB."
    )
    assert held(KEYS) == list(KEYS)
    api(Role.OPERATOR).patch("/api/v1/instance-groups/chat/", {"quota": quota}, format="json")
    run_reclaim()
    assert ReclaimRun.objects.get().chosen_blocks == 63


@pytest.mark.parametrize(
    ("change", "blocks", "sentence"),
    [
        (
            {"quota": {"capacity_bytes": 200 * BLOCK}},
            0,
            "Lowering the quota of group chat to 400 KiB frees nothing: 200 KiB are used, and reclaim begins"
            " at 320 KiB.",
        ),
        (
            {"quota": {"capacity_bytes": 20_000_000}},
            0,
            "Raising the quota of group chat to 19.1 MiB frees nothing: 200 KiB are used, and reclaim begins"
            " at 15.3 MiB.",
        ),
        (
            {"reclaim": {"used_ratio": 0.01, "low_watermark_ratio": 0.005}},
            76,
            "This change of group chat frees about 152 KiB (76 blocks): from 200 KiB used to 48 KiB.",
        ),
        (
            {"quota": {"per_type": {"nfs": 20 * BLOCK}}},
            85,
            "This change of group chat frees about 170 KiB (85 blocks): from 200 KiB used to 30 KiB.",
        ),
        ({}, 0, "This change of group chat frees nothing: 200 KiB are used, and reclaim begins at 7.63 MiB."),
    ],
)
def test_other_changes(api: Api, write: Write, change: dict[str, Any], blocks: int, sentence: str) -> None:
    write(KEYS)
    shown = post(api, kind="quota", instance_group="chat", **change)
    assert (shown["planned_blocks"], shown["sentence"]) == (blocks, sentence)


def test_a_quota_below_what_may_go_says_so(
    api: Api, index: redis.Redis, model: InstanceEntry, write: Write
) -> None:
    write(KEYS)
    change = {"reclaim": {"grace_seconds": 3600}, "quota": {"capacity_bytes": 10 * BLOCK}}
    shown = post(api, kind="quota", instance_group="chat", **change)
    assert shown["planned_blocks"] == 0
    assert shown["sentence"] == (
        "Lowering the quota of group chat to 20 KiB frees nothing: 200 KiB are used, and none of it may go"
        " now. 180 KiB too much stay for now, and writes are refused meanwhile."
    )


def test_a_trim(api: Api, write: Write, held: Held) -> None:
    write(KEYS)
    end = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    shown = post(api, kind="trim", instance_id="model-a", strategy="written", end=end)
    assert (shown["blocks"], shown["bytes"]) == (100, 100 * BLOCK)
    assert held(KEYS) == list(KEYS)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "kind"),
        ({"kind": "other"}, 400, "kind"),
        ({"kind": "reclaim"}, 400, "instance_group"),
        ({"kind": "reclaim", "instance_group": "chat", "strategy": "all"}, 400, "strategy"),
        ({"kind": "reclaim", "instance_group": "chat", "dry_run": True}, 400, "dry_run"),
        ({"kind": "quota"}, 400, "instance_group"),
        ({"kind": "quota", "instance_group": "other"}, 404, "name"),
        ({"kind": "quota", "instance_group": "chat", "quota": {"capacity_bytes": -1}}, 400, None),
        ({"kind": "trim", "instance_id": "model-a"}, 400, "strategy"),
    ],
)
def test_bad_requests(
    api: Api, model: InstanceEntry, body: dict[str, Any], status: int, field: str | None
) -> None:
    answer = post(api, status, **body)
    assert field in (None, answer["field"])


def test_who_may_what(api: Api, model: InstanceEntry) -> None:
    body = {"kind": "quota", "instance_group": "chat"}
    assert api(None).post(URL, body).status_code == 401
    assert api(Role.ENGINE).post(URL, body).status_code == 403
    assert api(Role.VIEWER, groups=["other"]).post(URL, body).status_code == 404
    assert api(Role.VIEWER).post(RUNS, {"instance_group": "chat", "dry_run": True}).status_code == 403


def test_an_index_elsewhere_says_so(api: Api, index: redis.Redis, model: InstanceEntry) -> None:
    index.hset(keyspace.instance(model.number, 0), homes.HOME, "node-b")
    for body in ({"kind": "quota"}, {"kind": "reclaim"}, {"kind": "reclaim", "instance_id": "model-a"}):
        assert post(api, 400, instance_group="chat", **body)["code"] == "unsupported"
