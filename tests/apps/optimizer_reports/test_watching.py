"""The optimizer as pages, alerts and metrics see it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.common.actor import Actor, Role
from apps.live.topics import topics
from apps.optimizer_reports.conditions import CONDITIONS
from apps.optimizer_reports.figures import collectors
from apps.optimizer_reports.models import OptimizerJob, OptimizerRun
from apps.optimizer_reports.pictures import optimizer_narrowed, optimizer_picture
from apps.optimizer_reports.services.leases import job_take, lease_beat
from tests.apps.conftest import Api
from tests.support.optimizer_jobs import mooncake_lines, ready_trace, upload, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("jobs_here", "sent")]
RUNS = "/api/v1/optimizer/runs/"


def begin(client, trace: int, **members) -> int:
    return client.post(RUNS, {"trace": trace, "hot_prefixes": 0, "has_bound": False, **members}).data["id"]


def holding(name: str, **parameters: float) -> list[str]:
    condition = next(one for one in CONDITIONS if one.name == name)
    return [finding.message for finding in condition.check(parameters)]


def test_the_picture_shows_what_goes_on(api: Api) -> None:
    client = api()
    trace = ready_trace(client, mooncake_lines([[1, 2], [1, 3]]))["id"]
    over = begin(client, trace)
    work()
    run = begin(client, trace, policies=["lru", "fifo"])
    lease = job_take()
    assert lease is not None and lease_beat(lease, 0.25)
    unread = upload(client, mooncake_lines([[1]])).data["id"]

    picture = optimizer_picture()
    assert [row["id"] for row in picture["traces"]] == [unread, trace]
    (shown,) = picture["open"]
    assert (shown["id"], shown["state"], shown["job_count"], shown["done_job_count"]) == (
        run,
        "running",
        2,
        0,
    )
    assert [(job["number"], job["progress"]) for job in shown["jobs"]] == [(0, 0.25)]
    assert 0 < shown["progress"] < 0.25
    assert [(row["id"], row["state"]) for row in picture["ended"]] == [(over, "done")]
    assert "optimizer" in topics()


def test_accounts_of_some_groups_are_shown_theirs(api: Api) -> None:
    everybodys = ready_trace(api(), mooncake_lines([[1]]))["id"]
    mine = ready_trace(api(groups=["chat"]), mooncake_lines([[1]]))["id"]
    begin(api(), everybodys)
    run = begin(api(groups=["chat"]), mine)
    picture = optimizer_picture()
    assert len(picture["open"]) == 2 and len(picture["traces"]) == 2
    chat = optimizer_narrowed(picture, Actor(name="c", role=Role.VIEWER, groups=frozenset({"chat", "x"})))
    assert [row["id"] for row in chat["open"]] == [run]
    assert [row["id"] for row in chat["traces"]] == [mine]
    other = optimizer_narrowed(picture, Actor(name="o", role=Role.VIEWER, groups=frozenset({"x"})))
    assert other == {"traces": [], "open": [], "ended": []}
    assert optimizer_narrowed(picture, Actor(name="a", role=Role.VIEWER)) is picture


def test_what_is_of_no_group_is_shown_to_no_account_of_some() -> None:
    picture = {"traces": [{"groups": []}], "open": [{"groups": []}], "ended": [{"groups": []}]}
    for groups in ((), ("chat",)):
        shown = optimizer_narrowed(picture, Actor(name="c", role=Role.VIEWER, groups=frozenset(groups)))
        assert shown == {"traces": [], "open": [], "ended": []}


def test_what_is_alerted(api: Api) -> None:
    client = api()
    trace = ready_trace(client, mooncake_lines([[1]]))["id"]
    run = begin(client, trace)
    assert holding("optimizer_stands_still", late_seconds=60) == []
    OptimizerJob.objects.update(created_at=timezone.now() - timedelta(seconds=90))
    assert len(holding("optimizer_stands_still", late_seconds=60)) == 1
    assert job_take() is not None
    assert holding("optimizer_stands_still", late_seconds=60) == []

    assert holding("optimizer_run_failed", recent_seconds=60) == []
    now = timezone.now()
    OptimizerRun.objects.filter(pk=run).update(state="failed", ended_at=now, reason="no luck")
    assert holding("optimizer_run_failed", recent_seconds=60) == [
        f"Optimizer run {run}, of trace trace.jsonl, failed: no luck."
    ]
    OptimizerRun.objects.filter(pk=run).update(ended_at=now - timedelta(seconds=61))
    assert holding("optimizer_run_failed", recent_seconds=60) == []


def test_figures(api: Api) -> None:
    client = api()
    stored = ready_trace(client, mooncake_lines([[1]]))
    begin(client, stored["id"], policies=["lru", "fifo"])
    job_take()
    (collector,) = collectors()
    values = {
        (sample.name, sample.labels.get("state", "")): sample.value
        for family in collector.collect()
        for sample in family.samples
    }
    assert values[("kvcm_optimizer_jobs", "queued")] == values[("kvcm_optimizer_jobs", "running")] == 1
    assert values[("kvcm_optimizer_trace_bytes", "")] == stored["stored_bytes"]
    assert values[("kvcm_optimizer_open_seconds", "")] > 0
