"""Optimizer runs over REST, their jobs carried out by real processes."""

from __future__ import annotations

import csv
import io

import pytest
from django.utils import timezone

from apps.audit.models import AuditEntry, Event
from apps.common.actor import Role
from apps.optimizer_reports.models import OptimizerJob, OptimizerRun
from apps.optimizer_reports.selectors.runs import measured
from apps.optimizer_reports.services.runs import runs_forget
from kvcm_platform.core.registry import Quota
from tests.apps.conftest import Api
from tests.factories.objects import make_group, make_storage
from tests.support.optimizer_jobs import mooncake_lines, ready_trace, upload, work
from tests.support.optimizer_traces import SHARED

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("jobs_here")]
URL = "/api/v1/optimizer/runs/"
CHAINS = [[1, 2, 3], [1, 2, 4], [5], [1, 2, 3]]
"""Of 10 blocks asked for, 1, 2 in the second and 1, 2, 3 in the fourth were seen before."""
COST = {"model": "qwen3-8b", "gpu_hour_price": 3.5}


@pytest.fixture
def small(api: Api, sent: list[str]) -> int:
    return ready_trace(api(), mooncake_lines(CHAINS), block_bytes="1000")["id"]


def begin(client, trace: int, **members):
    answer = client.post(URL, {"trace": trace, **members})
    assert answer.status_code == 201, answer.content
    return answer.data


def done(client, run: int):
    work()
    found = client.get(f"{URL}{run}/").data
    assert found["state"] == "done", found["reason"]
    return found


def rates(document, policy: str) -> dict[int, float]:
    curve = next(one for one in document["curves"] if one["policy"] == policy)
    return dict(zip(curve["curve"]["capacities"], curve["hit_rate"], strict=True))


def test_a_run_from_wish_to_result(api: Api, small: int, sent: list[str]) -> None:
    client = api()
    sent.clear()
    run = begin(client, small, policies=["lru", "fifo"], capacities=[3, "100%"], name="first")
    assert sent == ["apps.optimizer_reports.tasks.run_optimizer"]
    assert (run["state"], run["progress"], run["trace_name"]) == ("queued", 0.0, "trace.jsonl")
    assert [job["policy"] for job in run["jobs"]] == ["answers", "lru", "fifo", "belady"]
    run = done(client, run["id"])
    assert run["progress"] == 1.0 and {job["state"] for job in run["jobs"]} == {"done"}
    assert all(job["peak_bytes"] > 0 for job in run["jobs"])

    found = client.get(f"{URL}{run['id']}/result/").data
    lru = rates(found, "lru")
    # By hand: with 3 blocks [1,2,3] -> 2 hits -> [1,2,4], then 5 pushes 4 out, the fourth finds 1 and 2.
    assert (lru[3], lru[5]) == (0.4, 0.5)
    assert rates(found, "belady")[5] == 0.5
    assert rates(found, "fifo")[5] == 0.5
    assert found["details"]["access_counts"]["blocks"][0] == 2
    top = found["prefixes"]["nodes"][0]
    assert (top["blocks"], top["requests"], top["first_key"]) == (2, 3, "1")
    summary = run["summary"]
    assert summary["unlimited_hit_rate"] == 0.5
    assert [row["policy"] for row in summary["policies"]] == ["lru", "fifo", "belady"]
    assert AuditEntry.objects.filter(action="optimizer_run.create").count() == 1
    assert Event.objects.filter(kind="optimizer_run.done").count() == 1


def test_figures_of_a_public_trace(api: Api, sent: list[str]) -> None:
    client = api()
    content = (SHARED / "mooncake_conversation_trace.jsonl").read_bytes()
    trace = ready_trace(client, content)
    assert (trace["requests"], trace["blocks"], trace["distinct_blocks"]) == (12031, 288500, 182790)
    wish = {"policies": ["lru"], "touch": "root", "capacities": ["1%", "5%", "10%", "25%", "50%", 10_000]}
    run = begin(client, trace["id"], **wish)
    done(client, run["id"])
    found = client.get(f"{URL}{run['id']}/result/", {"points": 4000}).data
    lru = rates(found, "lru")
    at = [round(182_790 * share) for share in (0.01, 0.05, 0.1, 0.25, 0.5)]
    assert [round(lru[capacity], 4) for capacity in at] == [0.0523, 0.1954, 0.2784, 0.3535, 0.3631]
    assert round(rates(found, "belady")[10_000], 4) == 0.3664
    assert round(found["curves"][0]["unlimited_hit_rate"], 4) == 0.3664


def done_jobs(policy: str, *jobs: tuple[int, float]) -> None:
    now = timezone.now()
    run = OptimizerRun.objects.create(
        trace_name="t", state="done", asked_by="olga", asked_at=now, ended_at=now
    )
    for number, (accesses, busy) in enumerate(jobs):
        OptimizerJob.objects.create(
            **{"kind": "analyse", "run": run, "number": number, "policy": policy, "state": "done"},
            **{"work": accesses, "busy_seconds": busy},
        )


def test_what_jobs_took_is_told_apart_into_starts_and_rates() -> None:
    # Short ones: the first one compiled for 40 s, which is neither a rate nor the usual start.
    done_jobs("compat:lru", (15_000, 40.0), (15_000, 3.0), (15_000, 2.0))
    # 10 M accesses a second, after 2 s of start.
    done_jobs("lfu", (100_000_000, 12.0), (200_000_000, 22.0))
    found = measured(["compat:lru", "lfu", "sieve"])
    assert dict(found.rates) == {"lfu": pytest.approx(10e6)}
    assert dict(found.starts) == {"compat:lru": pytest.approx(3, abs=0.01), "lfu": pytest.approx(2)}


def test_an_estimate_begins_nothing(api: Api, small: int) -> None:
    viewer = api(Role.VIEWER)
    wish = {"trace": small, "policies": ["s3_fifo"], "capacities": ["10%", "50%"], "has_bound": False}
    answer = viewer.post(f"{URL}estimate/", wish)
    assert answer.status_code == 200
    assert answer.data["job_count"] == 2 and answer.data["jobs"][1]["work"] == 20
    assert 0 < answer.data["estimate_seconds"] < 60
    assert answer.data["spec"]["touch"] == "deep"
    assert not OptimizerRun.objects.exists()
    assert viewer.post(URL, wish).status_code == 403


IMPOSSIBLE = [
    ({"policies": ["nothing"]}, "policies"),
    ({"policies": []}, "policies"),
    ({"capacities": ["ten"]}, "capacities"),
    ({"capacities": [0]}, "capacities"),
    ({"capacities": ["101%"]}, "capacities"),
    ({"unit": "pages"}, "unit"),
    ({"touch": "sideways"}, "touch"),
    ({"instances": ["nobody"]}, "instances"),
    ({"types": ["nothing"]}, "types"),
    ({"begin_seconds": 5, "end_seconds": 5}, "end_seconds"),
    ({"windows": 501}, "windows"),
    ({"tiers": [[1]]}, "tiers"),
    ({"tiers": [[1, 2]], "touch": "root"}, "tiers"),
    ({"delay_seconds": -1}, "delay_seconds"),
    ({"parameters": {"lru": {"k": 1}}}, "parameters"),
    ({"cost": {"model": "none"}}, "model"),
    ({"unit": "bytes", "policies": ["compat:lru"]}, "policies"),
    ({"nonsense": 1}, "nonsense"),
    ({"trace": 999}, "trace"),
    ({"instance_group": "nobody"}, "instance_group"),
]


def test_wishes_that_cannot_be(api: Api, small: int) -> None:
    client = api()
    for members, field in IMPOSSIBLE:
        for path in ("", "estimate/"):
            answer = client.post(f"{URL}{path}", {"trace": small, **members})
            assert answer.status_code in (400, 404), (members, answer.content)
            assert answer.data["field"] == field, (members, answer.data)
    assert not OptimizerRun.objects.exists()


def test_a_trace_that_is_not_read_has_no_runs(api: Api, sent: list[str]) -> None:
    client = api()
    trace = upload(client, mooncake_lines(CHAINS)).data["id"]
    answer = client.post(URL, {"trace": trace})
    assert (answer.status_code, answer.data["field"]) == (409, "trace")


def test_a_group_brings_its_quota(api: Api, small: int, tmp_path) -> None:
    make_storage(tmp_path)
    make_group("chat", quota=Quota(capacity_bytes=3000))
    client = api()
    run = begin(client, small, policies=["lru"], instance_group="chat", cost=COST)
    run = done(client, run["id"])
    assert run["spec"]["quota_bytes"] == 3000 and run["instance_group"] == "chat"
    found = client.get(f"{URL}{run['id']}/result/").data
    assert found["quota"] == {"bytes": 3000, "blocks": 3}
    row = run["summary"]["policies"][0]
    assert (row["policy"], row["hit_rate_at_quota"]) == ("lru", 0.4)
    assert row["best"]["capacity"] >= 0
    assert set(found["worth"]["curves"]) == {"lru", "belady"}
    other = client.post(f"{URL}{run['id']}/worth/", {"cost": {**COST, "gpu_hour_price": 7.0}}).data
    first, second = (doc["curves"]["lru"]["saved_money_month"] for doc in (found["worth"], other))
    assert second[-1] == pytest.approx(2 * first[-1])


def test_tiers_and_parts_of_a_trace(api: Api, small: int) -> None:
    client = api()
    run = begin(client, small, tiers=[[2, 3]], begin_seconds=0, end_seconds=2, has_bound=False)
    done(client, run["id"])
    found = client.get(f"{URL}{run['id']}/result/").data
    # The first two requests alone: [1,2,3], [1,2,4].
    assert rates(found, "lru")[2] == pytest.approx(2 / 6)
    split = found["details"]["tiers"][0]
    assert (split["tier1"]["blocks"], split["tier2"]["blocks"]) == (2, 0)


def test_files_of_a_run(api: Api, small: int) -> None:
    client = api()
    first = begin(client, small, policies=["lru", "ttl"], name="<b>one</b>", cost=COST)["id"]
    second = begin(client, small, policies=["fifo"], capacities=[3])["id"]
    done(client, first)
    answer = client.get(f"{URL}{first}/csv/")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert answer["Content-Type"].startswith("text/csv")
    assert {row["policy"] for row in rows} == {"lru", "ttl", "belady"}
    assert [row["hit_rate"] for row in rows if row["policy"] == "lru" and row["capacity"] == "3"] == [
        "0.400000"
    ]
    png = client.get(f"{URL}{first}/png/", {"dark": "1"})
    assert png.content.startswith(b"\x89PNG") and png["Content-Type"] == "image/png"
    page = client.get(f"{URL}{first}/html/").content.decode()
    assert "&lt;b&gt;one&lt;/b&gt;" in page and "<b>one</b>" not in page and "<svg" in page

    compared = client.get(f"{URL}compare/", {"ids": f"{second},{first}"}).data
    assert [run["id"] for run in compared] == [second, first]
    assert rates(compared[0], "fifo")[3] == rates(compared[0], "fifo")[3]
    assert client.get(f"{URL}compare/png/", {"ids": f"{first},{second}"}).content.startswith(b"\x89PNG")
    text = client.get(f"{URL}compare/csv/", {"ids": f"{first},{second}"}).content.decode()
    assert "run 2: fifo" in text or f"run {second}: fifo" in text
    assert client.get(f"{URL}compare/", {"ids": "x"}).data["field"] == "ids"
    assert client.get(f"{URL}compare/").data["field"] == "ids"
    assert client.get(f"{URL}compare/", {"ids": f"{first},99"}).status_code == 404
    assert client.get(f"{URL}{first}/png/", {"width": "9"}).data["field"] == "width"


def test_a_run_that_is_cancelled_before_it_begins(api: Api, small: int) -> None:
    client = api()
    run = begin(client, small)["id"]
    assert client.get(f"{URL}{run}/png/").data["field"] == "id"
    answer = client.post(f"{URL}{run}/cancel/")
    assert (answer.status_code, answer.data["state"]) == (200, "cancelled")
    assert work().done == 0
    assert client.post(f"{URL}{run}/cancel/").data["code"] == "version_conflict"
    answer = client.post(f"{URL}{run}/retry/")
    assert (answer.data["state"], answer.data["cancel_requested"]) == ("queued", False)
    done(client, run)
    assert client.post(f"{URL}{run}/retry/").data["code"] == "version_conflict"


def test_a_run_keeps_what_it_found_without_its_trace(api: Api, small: int) -> None:
    client = api()
    run = begin(client, small, policies=["lru"])["id"]
    answer = client.delete(f"/api/v1/optimizer/traces/{small}/")
    assert (answer.status_code, answer.data["code"]) == (409, "in_use")
    done(client, run)
    assert client.delete(f"/api/v1/optimizer/traces/{small}/").status_code == 204
    found = client.get(f"{URL}{run}/").data
    assert (found["trace"], found["trace_name"], found["trace_facts"]["blocks"]) == (None, "trace.jsonl", 10)
    assert client.get(f"{URL}{run}/html/").status_code == 200
    assert client.delete(f"{URL}{run}/").status_code == 204
    assert not OptimizerJob.objects.filter(run__isnull=False).exists()


def test_lists_and_who_sees_them(api: Api, small: int, sent: list[str]) -> None:
    everybody, chat = api(), api(groups=["chat"])
    mine = ready_trace(chat, mooncake_lines(CHAINS), name="mine")["id"]
    begin(everybody, small, name="hidden")
    run = begin(chat, mine, name="shown", policies=["sieve"])["id"]
    assert [row["name"] for row in chat.get(URL).data["results"]] == ["shown"]
    assert [row["name"] for row in everybody.get(URL, {"ordering": "name"}).data["results"]] == [
        "hidden",
        "shown",
    ]
    assert everybody.get(URL, {"trace": mine}).data["count"] == 1
    assert everybody.get(URL, {"search": "hid", "state": "queued"}).data["count"] == 1
    assert chat.post(URL, {"trace": small}).status_code == 404
    hidden = OptimizerRun.objects.get(name="hidden").pk
    assert chat.get(f"{URL}{hidden}/result/").status_code == 404
    assert chat.post(f"{URL}{hidden}/cancel/").status_code == 404
    assert api(Role.VIEWER).post(f"{URL}{run}/cancel/").status_code == 403
    assert everybody.patch(f"{URL}{run}/", {"note": "n"}).data["note"] == "n"


def test_old_runs_are_forgotten_and_open_ones_never(api: Api, small: int) -> None:
    client = api()
    kept_open = begin(client, small)["id"]
    over = [begin(client, small)["id"] for _ in range(3)]
    for run in over:
        client.post(f"{URL}{run}/cancel/")
    assert runs_forget(kept=1) == 2
    assert set(OptimizerRun.objects.values_list("pk", flat=True)) == {kept_open, over[-1]}


def test_what_forms_offer(api: Api) -> None:
    found = api(Role.VIEWER).get("/api/v1/optimizer/options/").data
    assert {"lru", "ttl", "belady", "s3_fifo", "compat:lru"} <= {row["name"] for row in found["policies"]}
    assert found["defaults"]["policies"] == ["lru"] and found["upload_bytes"] > 0
