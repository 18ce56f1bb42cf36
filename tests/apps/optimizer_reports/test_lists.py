"""Lists of the optimizer: what they cost, how long their pages are, and numbers that no row has."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from apps.optimizer_reports.models import (
    OptimizerCostModel,
    OptimizerGroupCost,
    OptimizerRun,
    OptimizerTrace,
    Recommendation,
    Report,
    ReportSchedule,
    SavingsMonth,
)
from kvcm_platform.optimizer.roi.cost import cost_from_json, cost_to_json
from tests.apps.conftest import Api
from tests.factories.objects import make_group, make_storage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
URL = "/api/v1/optimizer/"
LISTS = ("traces/", "runs/", "schedules/", "reports/", "recommendations/", "cost-models/", "savings/")
OTHERS = ("schedules/s0/", "schedules/s0/reports/", "cost-models/c0/", "savings/summary/", "savings/csv/")


def fill(numbers: range) -> None:
    """One of everything, each of a group of its own."""
    now = timezone.now()
    cost = cost_to_json(cost_from_json({"model": "llama-3.1-8b"}))
    for n in numbers:
        name = make_group(f"g{n}").entry.name
        by = {"asked_by": "olga"}
        trace = OptimizerTrace.objects.create(
            name=f"t{n}", source="upload", state="ready", folder=f"t{n}", added_by="olga", added_at=now
        )
        trace.groups.create(name=name)
        run = OptimizerRun.objects.create(
            trace=trace, trace_name="t", group_name=name, state="done", asked_at=now, **by
        )
        run.groups.create(name=name)
        schedule = ReportSchedule.objects.create(
            **{"name": f"s{n}", "group_name": name, "cron": "0 6 * * *", "source": "trace", "trace": trace},
            **{"since": now, "created_by": "olga", "updated_at": now},
        )
        report = Report.objects.create(
            schedule=schedule, trigger="request", state="done", trace=trace, run=run, created_at=now, **by
        )
        report.mails.create(recipient="ada@example.org", due_at=now, created_at=now)
        Recommendation.objects.create(
            kind="quota", group_name=name, run=run, sentence="x", created_at=now, expires_at=now
        )
        model = OptimizerCostModel.objects.create(name=f"c{n}", settings=cost, updated_at=now)
        OptimizerGroupCost.objects.create(group_name=name, cost_model=model)
        SavingsMonth.objects.create(group_name=name, month=now.date().replace(day=1))


def costs(client: APIClient) -> dict[str, int]:
    found = {}
    for path in (*LISTS, *OTHERS):
        with CaptureQueriesContext(connection) as queries:
            assert client.get(URL + path).status_code == 200, path
        found[path] = len(queries)
    return found


def test_what_they_cost_does_not_grow_with_their_rows(api: Api, tmp_path) -> None:
    make_storage(tmp_path)
    client = api()
    fill(range(3))
    client.get(f"{URL}traces/")
    few = costs(client)
    fill(range(3, 12))
    assert costs(client) == few
    assert max(few.values()) <= 7
    for path in LISTS:
        answer = client.get(URL + path, {"page_size": 5}).json()
        assert (answer["count"], len(answer["results"])) == (12, 5), path


@pytest.mark.parametrize(("path", "name"), [("runs/", "trace"), ("recommendations/", "run")])
@pytest.mark.parametrize("number", [1 << 63, 10**30, -1, 1.5])
def test_numbers_that_no_row_has_are_refused(api: Api, path: str, name: str, number: float) -> None:
    answer = api().get(URL + path, {name: number})
    assert (answer.status_code, answer.json()["field"]) == (400, name)
    assert api().get(URL + path, {name: 1}).json()["count"] == 0
