"""Reclaim runs over REST."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from apps.audit.models import AuditEntry
from apps.capacity.models import ReclaimRun
from apps.capacity.services import reports_ingest
from apps.common.actor import Role
from apps.common.queue import RECLAIM_TASK
from kvcm_platform.core.reclaim.runs import RunState, Stop, Trigger
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import keyspace
from tests.apps.capacity.conftest import T0, Report
from tests.apps.conftest import Api
from tests.factories.objects import make_group

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/capacity/reclaim-runs/"


def ask(api: Api, **body: Any) -> dict[str, Any]:
    answer = api(Role.OPERATOR).post(URL, {"instance_group": "chat", **body})
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_a_request_is_on_record_and_handed_over(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry
) -> None:
    run = ask(api, percent=5, idle_seconds=60)
    assert (run["state"], run["trigger"], run["instance_group"]) == ("queued", "request", "chat")
    assert (run["began_at"], run["duration_seconds"], run["scopes"]) == (None, None, [])
    handed = json.loads(index.hget(keyspace.RECLAIM_REQUESTS, run["id"]))
    assert handed == {
        **{"id": run["id"], "group": "chat", "instance_id": "", "storage": "", "bytes": 0, "blocks": 0},
        **{"percent": 5.0, "idle_seconds": 60, "by": run["asked_by"]},
    }
    assert run["request"]["percent"] == 5.0 and run["request"]["by"] == run["asked_by"] != ""
    assert sent == [RECLAIM_TASK]
    entry = AuditEntry.objects.get(action="reclaim.request")
    assert (entry.object_kind, entry.object_name) == ("instance_group", "chat")
    assert entry.after == {"id": run["id"], "percent": 5.0, "idle_seconds": 60}


def test_what_the_reclaimer_reports_is_shown(
    api: Api, sent: list[str], model: InstanceEntry, report: Report
) -> None:
    run = ask(api, bytes=4000)
    report(
        run["id"],
        trigger=Trigger.REQUEST,
        state=RunState.DONE,
        stop=Stop.ENOUGH.value,
        request={**run["request"], "id": run["id"], "group": "chat"},
        planned_blocks=40,
        planned_bytes=4000,
        chosen_blocks=40,
        chosen_bytes=4000,
        freed_blocks=39,
        freed_bytes=3900,
        failed_blocks=1,
        failed_bytes=100,
        by_instance={"model-b": [10, 1000], "model-a": [30, 3000]},
        by_storage={"nfs_a": [40, 4000]},
        oldest_use_ms=T0 - 60_000,
        newest_use_ms=T0 - 30_000,
        marked_ms=T0 + 500,
        ended_ms=T0 + 1500,
        busy_ms=250,
        rounds=1,
        detail="one object is locked",
    )
    reports_ingest()
    shown = api(Role.VIEWER).get(f"{URL}{run['id']}/").json()
    assert (shown["state"], shown["stop"], shown["duration_seconds"]) == ("done", "enough", 1.5)
    assert (shown["freed_bytes"], shown["failed_blocks"], shown["busy_seconds"]) == (3900, 1, 0.25)
    assert shown["by_instance"] == [
        {"instance_id": "model-a", "blocks": 30, "bytes": 3000},
        {"instance_id": "model-b", "blocks": 10, "bytes": 1000},
    ]
    assert shown["by_storage"] == [{"storage": "nfs_a", "blocks": 40, "bytes": 4000}]
    (listed,) = api(Role.VIEWER).get(URL).json()["results"]
    assert "by_instance" not in listed
    assert listed == {name: shown[name] for name in listed}


def test_lists_are_narrowed_searched_and_ordered(api: Api, index: redis.Redis, report: Report) -> None:
    over = {"state": RunState.DONE, "ended_ms": T0 + 1}
    report("0000000000000001", chosen_bytes=1, by_instance={"model-a": [1, 1]}, **over)
    report("0000000000000002", chosen_bytes=3, trigger=Trigger.QUOTA, began_ms=T0 + 60_000, **over)
    report("0000000000000003", chosen_bytes=2, group="search", by_storage={"nfs_a": [1, 2]}, detail="x y")
    reports_ingest()
    client = api(Role.VIEWER)
    between = datetime.fromtimestamp(T0 / 1000 + 30, UTC).isoformat()

    def ids(**query: Any) -> list[int]:
        return [int(row["id"], 16) for row in client.get(URL, query).json()["results"]]

    assert ids() == [3, 2, 1]
    assert ids(state="done") == [2, 1]
    assert ids(state=["done", "choosing"]) == [3, 2, 1]
    assert ids(trigger="quota") == [2]
    assert ids(instance_group="search") == [3]
    assert ids(instance_id="model-a") == [1]
    assert ids(storage="nfs_a") == [3]
    assert ids(since=between) == [2]
    assert ids(until=between) == [3, 1]
    assert ids(search="y x") == [3]
    assert ids(ordering="-chosen_bytes") == [2, 3, 1]
    assert client.get(URL, {"page_size": 2}).json()["next"]
    assert client.get(URL, {"state": "odd"}).status_code == 400


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"instance_group": ""}, 400, "instance_group"),
        ({"instance_group": "other"}, 404, "name"),
        ({"instance_id": "other"}, 404, "instance_id"),
        ({"storage": "nowhere"}, 400, "storage"),
        ({"bytes": -1}, 400, "bytes"),
        ({"blocks": -1}, 400, "blocks"),
        ({"idle_seconds": -1}, 400, "idle_seconds"),
        ({"percent": 100.5}, 400, "percent"),
        ({"percent": -5}, 400, "percent"),
        ({"percent": "nan"}, 400, "percent"),
        ({"bytes": 1, "percent": 5}, 400, "percent"),
        ({"amount": 5}, 400, "amount"),
    ],
)
def test_bad_requests(
    api: Api, sent: list[str], model: InstanceEntry, change: dict[str, Any], status: int, field: str
) -> None:
    answer = api(Role.OPERATOR).post(URL, {"instance_group": "chat", **change})
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert (sent, ReclaimRun.objects.count()) == ([], 0)


def test_an_instance_names_its_group(api: Api, sent: list[str], model: InstanceEntry) -> None:
    assert ask(api, instance_group="", instance_id="model-a", blocks=1)["instance_group"] == "chat"
    make_group("search")
    wrong = api(Role.OPERATOR).post(URL, {"instance_group": "search", "instance_id": "model-a"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "instance_group")


def test_the_same_is_asked_once_at_a_time(api: Api, sent: list[str], model: InstanceEntry) -> None:
    ask(api, percent=5)
    again = api(Role.OPERATOR).post(URL, {"instance_group": "chat", "percent": 5})
    assert (again.status_code, again.json()["code"]) == (409, "in_use")
    ask(api, instance_id="model-a", percent=5)


def test_a_request_that_could_not_be_handed_over_is_told(
    api: Api, sent: list[str], model: InstanceEntry, settings
) -> None:
    settings.KVCM_REDIS_URL = "redis://127.0.0.1:1/0"
    assert api(Role.OPERATOR).post(URL, {"instance_group": "chat"}).status_code == 503
    run = ReclaimRun.objects.get()
    assert (run.state, run.stop) == ("failed", "errors")
    assert run.detail.startswith("it was not handed over: ")
    assert sent == []


def test_one_that_nobody_began_is_cancelled_at_once(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry
) -> None:
    run = ask(api, percent=5)
    client = api(Role.OPERATOR)
    cancelled = client.post(f"{URL}{run['id']}/cancel/").json()
    assert (cancelled["state"], cancelled["stop"], cancelled["cancel_requested"]) == (
        "cancelled",
        "cancelled",
        True,
    )
    assert not index.exists(keyspace.RECLAIM_REQUESTS)
    assert AuditEntry.objects.get(action="reclaim.cancel").after == {"id": run["id"]}
    assert client.post(f"{URL}{run['id']}/cancel/").status_code == 409


def test_one_that_runs_is_cancelled_by_its_reclaimer(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry, report: Report
) -> None:
    report()
    reports_ingest()
    run_id = "00000000000000a1"
    answer = api(Role.OPERATOR).post(f"{URL}{run_id}/cancel/")
    assert (answer.json()["state"], answer.json()["cancel_requested"]) == ("choosing", True)
    assert index.smembers(keyspace.RECLAIM_CANCELS) == {run_id.encode()}
    assert sent == [RECLAIM_TASK]
    report(state=RunState.DELETING, stop=Stop.CANCELLED.value)
    reports_ingest()
    late = api(Role.OPERATOR).post(f"{URL}{run_id}/cancel/")
    assert (late.status_code, late.json()["code"]) == (409, "version_conflict")


def test_who_may_what(api: Api, sent: list[str], model: InstanceEntry) -> None:
    body = {"instance_group": "chat"}
    assert api(None).get(URL).status_code == 401
    assert api(Role.ENGINE).get(URL).status_code == 403
    assert api(Role.VIEWER).post(URL, body).status_code == 403
    assert api(Role.OPERATOR, groups=["other"]).post(URL, body).status_code == 404
    run = ask(api)
    assert api(Role.VIEWER).get(URL).json()["count"] == 1
    assert api(Role.VIEWER).post(f"{URL}{run['id']}/cancel/").status_code == 403
    limited = api(Role.OPERATOR, groups=["other"])
    assert limited.get(URL).json()["count"] == 0
    assert limited.get(f"{URL}{run['id']}/").status_code == 404
    assert limited.post(f"{URL}{run['id']}/cancel/").status_code == 404
    assert api(Role.VIEWER).get(f"{URL}{'0' * 16}/").status_code == 404


def test_a_list_costs_the_same_queries_however_long(
    api: Api, report: Report, django_assert_num_queries: Any
) -> None:
    for number in range(30):
        report(f"{number:016x}", by_instance={f"model-{each}": [1, 1] for each in range(50)})
    reports_ingest()
    client = api(Role.VIEWER)
    client.get(URL)
    with django_assert_num_queries(3):
        assert len(client.get(URL).json()["results"]) == 30
