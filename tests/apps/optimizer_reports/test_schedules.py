"""Schedules: what may be set, when they fire, and that nothing fires twice or piles up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.instances.services import instance_remove
from apps.optimizer_reports.choices import ReportState
from apps.optimizer_reports.folders import folder_name
from apps.optimizer_reports.models import OptimizerTrace, Report, ReportSchedule
from apps.optimizer_reports.schedules import FIRE_TASK
from apps.optimizer_reports.services.beat_rows import beat_rows_align
from apps.optimizer_reports.services.report_begin import report_fire, reports_fire_missed
from apps.optimizer_reports.services.report_rounds import reports_round
from kvcm_platform.core.errors import DomainError
from tests.apps.conftest import Api
from tests.factories.actors import OPERATOR
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.fast_beat import FastBeat, beat_clock
from tests.support.optimizer_jobs import mooncake_lines, ready_trace, work

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent", "jobs_here")]
URL = "/api/v1/optimizer/schedules/"
CHAINS = [[1, 2, 3], [1, 2, 4], [1, 2, 3], [5], [1, 2, 4], [5]]
SMALL = {"policies": ["lru"], "hot_prefixes": 0, "has_bound": False, "windows": 0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], datetime]:
    """Moves the clock of the platform, which begins at 1 March 2027, 5:30 UTC, a Monday."""
    now = [datetime(2027, 3, 1, 5, 30, tzinfo=UTC)]
    monkeypatch.setattr("django.utils.timezone.now", lambda: now[0])

    def move(by: timedelta) -> datetime:
        now[0] += by
        return now[0]

    return move


@pytest.fixture
def client(api: Api) -> APIClient:
    return api()


@pytest.fixture
def trace() -> int:
    """On record as one that is ready; what is in it does not matter."""
    now = datetime(2027, 1, 1, tzinfo=UTC)
    row = OptimizerTrace.objects.create(
        name="t", source="upload", state="ready", folder="t", added_by="olga", added_at=now
    )
    return row.pk


def add(client: APIClient, trace_id: int | None, name: str = "nightly", **members):
    body = {"name": name, "cron": "0 6 * * *", "source": "trace", "trace": trace_id, "template": SMALL}
    return client.post(URL, {**body, **members})


def test_life_of_a_schedule(client: APIClient, trace: int, clock) -> None:
    made = add(client, trace, cron="30 7 * * mon-fri", timezone="Europe/Berlin").json()
    assert made["cron_words"] == "At 07:30, Monday through Friday (Europe/Berlin)"
    # Berlin is an hour ahead; today's time is an hour away.
    assert made["next_runs"] == [f"2027-03-0{day}T06:30:00Z" for day in range(1, 6)]
    assert made["template"]["policies"] == ["lru"] and made["last_report"] is None

    row = PeriodicTask.objects.get(task=FIRE_TASK)
    assert row.enabled and str(row.crontab.timezone) == "Europe/Berlin"
    assert (row.crontab.minute, row.crontab.hour, row.crontab.day_of_week) == ("30", "7", "1-5")

    changed = client.patch(f"{URL}nightly/", {"paused": True, "cron": "0 5 * * *", "version": 1}).json()
    assert (changed["paused"], changed["version"], changed["next_runs"]) == (True, 2, [])
    row.refresh_from_db()
    assert not row.enabled and row.crontab.minute == "0"
    assert client.patch(f"{URL}nightly/", {"paused": False, "version": 1}).json()["code"] == (
        "version_conflict"
    )
    assert client.get(f"{URL}?paused=true").json()["count"] == 1
    assert client.get(f"{URL}?paused=false").json()["count"] == 0
    assert client.delete(f"{URL}nightly/").status_code == 204
    assert not PeriodicTask.objects.filter(task=FIRE_TASK).exists()
    actions = (
        AuditEntry.objects.filter(object_kind="schedule").order_by("id").values_list("action", flat=True)
    )
    assert list(actions) == ["schedule.add", "schedule.update", "schedule.remove"]


@pytest.mark.parametrize(
    ("members", "status", "field"),
    [
        ({"name": ""}, 400, "name"),
        ({"name": "explain"}, 400, "name"),
        ({"cron": "x"}, 400, "cron"),
        ({"cron": "* * * * *"}, 400, "cron"),
        ({"timezone": "Mars/Olympus"}, 400, "timezone"),
        ({"source": "moon"}, 400, "source"),
        ({"trace": None}, 400, "trace"),
        ({"trace": 999_999}, 404, "trace"),
        ({"instance_group": "nowhere"}, 404, "instance_group"),
        ({"source": "capture"}, 400, "instances"),
        ({"source": "capture", "instances": ["nobody"]}, 404, "instance_id"),
        ({"capture_seconds": 5}, 400, "capture_seconds"),
        ({"keep_reports": 0}, 400, "keep_reports"),
        ({"hit_rate_threshold": 0}, 400, "hit_rate_threshold"),
        ({"recipients": ["ada@example.org", "nobody"]}, 400, "recipients"),
        ({"recipients": [f"a{n}@example.org" for n in range(51)]}, 400, "recipients"),
        ({"template": {"policies": ["magic"]}}, 400, "policies"),
        ({"template": {"cost": {"model": "qwen3-8b"}}}, 400, "cost"),
        ({"colour": 1}, 400, "colour"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(
    client: APIClient, trace: int, members: dict, status: int, field: str
) -> None:
    answer = add(client, trace, **members)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not ReportSchedule.objects.exists() and not PeriodicTask.objects.filter(task=FIRE_TASK).exists()


def test_roles_and_scopes(api: Api, client: APIClient, trace: int, tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    make_group("other")
    make_instance()
    assert add(client, trace).status_code == 201
    assert add(client, trace, "of-chat", instance_group="chat").status_code == 201
    viewer = api(Role.VIEWER)
    assert viewer.get(URL).json()["count"] == 2
    assert add(viewer, trace, "x").status_code == 403
    assert viewer.post(f"{URL}nightly/run/").status_code == 403
    assert viewer.post(f"{URL}explain/", {"cron": "0 6 * * *"}).status_code == 403
    limited = api(groups=["chat"])
    assert [row["name"] for row in limited.get(URL).json()["results"]] == ["of-chat"]
    assert limited.get(f"{URL}nightly/").status_code == 404
    # Of no group, of one that it may not see, of a trace that it may not see, with an instance of another.
    assert add(limited, trace, "x").status_code == 403
    assert add(limited, trace, "x", instance_group="other").status_code == 404
    assert add(limited, trace, "x", instance_group="chat").status_code == 404
    capture = {"source": "capture", "instances": ["model-a"], "instance_group": "other"}
    assert add(client, None, "x", **capture).json()["field"] == "instances"


def test_expression_explained(client: APIClient, clock) -> None:
    answer = client.post(f"{URL}explain/", {"cron": "0 */6 * * *", "timezone": "Asia/Kolkata"}).json()
    assert answer["cron_words"] == "Every 6 hours (Asia/Kolkata)"
    # 6:00, 12:00, 18:00 there are 5:30 hours earlier here; it is 11:00 there.
    assert answer["next_runs"][:2] == ["2027-03-01T06:30:00Z", "2027-03-01T12:30:00Z"]
    assert client.post(f"{URL}explain/", {"cron": "0 0 1 * 1"}).json()["field"] == "cron"


@pytest.mark.django_db(transaction=True)
def test_fires_twice_by_the_database_scheduler(client: APIClient, clock) -> None:
    """Beat's own scheduler over its own rows, on a clock of ours; every due task is done at once."""
    add(client, ready_trace(client, mooncake_lines(CHAINS), block_bytes=4096)["id"])
    reports: list[Report | None] = []

    def deliver(name: str, kwargs: dict) -> None:
        assert name == FIRE_TASK
        reports.append(report_fire(**kwargs))

    with beat_clock(timezone.now):
        beat = FastBeat(deliver)
        for _ in range(48):
            beat.tick()
            reports_round()
            work()
            clock(timedelta(hours=1))
    assert [report.due_at for report in reports] == [
        datetime(2027, 3, 1, 6, 0, tzinfo=UTC),
        datetime(2027, 3, 2, 6, 0, tzinfo=UTC),
    ]
    reports_round()
    done = Report.objects.order_by("id")
    assert [(report.state, report.trigger) for report in done] == [("done", "schedule")] * 2
    last = client.get(f"{URL}nightly/").json()["last_report"]
    assert last["due_at"] == "2027-03-02T06:00:00Z" and last["run"] is not None


def test_two_beats_make_one_report(client: APIClient, trace: int, clock) -> None:
    add(client, trace)
    schedule = ReportSchedule.objects.get()
    assert report_fire(schedule_id=schedule.pk) is None
    clock(timedelta(minutes=30))
    first = report_fire(schedule_id=schedule.pk)
    assert first is not None and first.state == ReportState.COLLECTING
    clock(timedelta(seconds=3))
    assert report_fire(schedule_id=schedule.pk) is None
    assert reports_fire_missed() == 0
    assert Report.objects.count() == 1


def test_missed_times_do_not_pile_up(client: APIClient, trace: int, clock) -> None:
    """Nobody was there for a week: one report is made up for, of the newest time."""
    add(client, trace)
    clock(timedelta(minutes=30, seconds=30))
    # Beat may still come.
    assert reports_fire_missed() == 0
    clock(timedelta(days=7))
    assert reports_fire_missed() == 1
    assert Report.objects.get().due_at == datetime(2027, 3, 8, 6, 0, tzinfo=UTC)
    assert reports_fire_missed() == 0


def test_a_time_that_comes_too_early_is_skipped(client: APIClient, trace: int, clock) -> None:
    add(client, trace, cron="0 * * * *")
    schedule = ReportSchedule.objects.get()
    clock(timedelta(minutes=30))
    first = report_fire(schedule_id=schedule.pk)
    clock(timedelta(hours=1))
    second = report_fire(schedule_id=schedule.pk)
    assert (second.state, second.reason) == ("skipped", f"report {first.pk} was still being made")
    client.post(f"/api/v1/optimizer/reports/{first.pk}/cancel/")
    clock(timedelta(hours=1))
    assert report_fire(schedule_id=schedule.pk).state == "collecting"


def test_a_pause_and_new_times_are_not_made_up_for(client: APIClient, trace: int, clock) -> None:
    add(client, trace, paused=True)
    schedule = ReportSchedule.objects.get()
    clock(timedelta(days=3))
    assert report_fire(schedule_id=schedule.pk) is None
    assert reports_fire_missed() == 0
    client.patch(f"{URL}nightly/", {"paused": False})
    assert reports_fire_missed() == 0
    # It is 5:30: a time of 5:00 today was before it was set.
    client.patch(f"{URL}nightly/", {"cron": "0 5 * * *"})
    assert report_fire(schedule_id=schedule.pk) is None
    clock(timedelta(days=1))
    assert report_fire(schedule_id=schedule.pk).due_at == datetime(2027, 3, 5, 5, 0, tzinfo=UTC)


def test_a_clock_that_is_a_little_behind_beats_serves_the_time(client: APIClient, trace: int, clock) -> None:
    add(client, trace)
    clock(timedelta(minutes=29, seconds=59))
    report = report_fire(schedule_id=ReportSchedule.objects.get().pk)
    assert report is not None and report.due_at == datetime(2027, 3, 1, 6, 0, tzinfo=UTC)


def test_rows_of_beat_that_somebody_changed_are_put_right(client: APIClient, trace: int) -> None:
    add(client, trace)
    row = PeriodicTask.objects.get(task=FIRE_TASK)
    name, kwargs = row.name, row.kwargs
    PeriodicTask.objects.filter(pk=row.pk).update(enabled=False, kwargs="{}")
    PeriodicTask.objects.create(name="stray", task=FIRE_TASK, interval=None, crontab=row.crontab)
    assert beat_rows_align() == 1
    row = PeriodicTask.objects.get(task=FIRE_TASK)
    assert (row.name, row.kwargs, row.enabled) == (name, kwargs, True)
    PeriodicTask.objects.all().delete()
    beat_rows_align()
    assert PeriodicTask.objects.get(task=FIRE_TASK).name == name


def test_run_now(client: APIClient, trace: int) -> None:
    add(client, trace, paused=True)
    answer = client.post(f"{URL}nightly/run/")
    assert answer.status_code == 202
    report = answer.json()
    assert (report["state"], report["trigger"], report["due_at"]) == ("collecting", "request", None)
    assert report["asked_by"].startswith("operator")
    assert client.post(f"{URL}nightly/run/").json()["code"] == "in_use"
    assert client.delete(f"{URL}nightly/").json()["code"] == "in_use"
    cancelled = client.post(f"/api/v1/optimizer/reports/{report['id']}/cancel/").json()
    assert cancelled["state"] == "cancelled"
    assert client.post(f"/api/v1/optimizer/reports/{report['id']}/cancel/").json()["code"] == (
        "version_conflict"
    )
    assert client.delete(f"{URL}nightly/").status_code == 204


def test_schedules_are_bounded(client: APIClient, trace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.optimizer_reports.services.schedules.SCHEDULES_AT_MOST", 1)
    add(client, trace)
    assert add(client, trace, "b").json()["code"] == "reach_max_entity_capacity"


def test_nobody_asks_for_what_may_not_be_seen() -> None:
    from apps.optimizer_reports.services.report_begin import report_request

    with pytest.raises(DomainError, match="does not exist"):
        report_request(acting=OPERATOR, name="nightly")


def test_reports_of_a_group_show_no_other_groups_traffic(client: APIClient, trace: int, tmp_path) -> None:
    make_storage(tmp_path)
    make_group("chat")
    make_group("code")
    shown = OptimizerTrace.objects.get(pk=trace)
    shown.instances = [{"instance_id": "a", "group": "chat"}, {"instance_id": "b", "group": "code"}]
    shown.save()
    answer = add(client, trace, instance_group="chat")
    assert (answer.status_code, answer.json()["field"]) == (400, "trace")
    shown.instances = shown.instances[:1]
    shown.save()
    assert add(client, trace, instance_group="chat").status_code == 201
    # Accounts of another group would see the reports of this one.
    client.post(f"{URL}nightly/run/")
    OptimizerTrace.objects.update(instances=[])
    moved = client.patch(f"{URL}nightly/", {"instance_group": "code"})
    assert (moved.status_code, moved.json()["field"]) == (400, "instance_group")
    assert client.patch(f"{URL}nightly/", {"instance_group": "chat", "note": "x"}).status_code == 200


def test_an_instance_that_is_of_another_group_by_now_is_not_captured(client: APIClient, tmp_path) -> None:
    make_storage(tmp_path)
    make_group("chat")
    make_group("code")
    for name in ("a", "b"):
        make_instance(name, "chat")
    members = {"instance_group": "chat", "instances": ["a", "b"], "source": "capture"}
    assert add(client, None, **members).status_code == 201
    instance_remove(acting=OPERATOR, instance_id="b")
    make_instance("b", "code")
    report = client.post(f"{URL}nightly/run/").json()["id"]
    reports_round()
    ended = client.get(f"/api/v1/optimizer/reports/{report}/").json()
    assert (ended["state"], OptimizerTrace.objects.count()) == ("failed", 0)
    assert ended["reason"] == "instance b is not registered in group chat"


def test_a_trace_stays_while_a_schedule_makes_reports_of_it(client: APIClient, trace: int) -> None:
    OptimizerTrace.objects.update(folder=folder_name())
    assert add(client, trace).status_code == 201
    refused = client.delete(f"/api/v1/optimizer/traces/{trace}/")
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    assert "a schedule makes reports of trace t" in refused.json()["message"]
    assert client.delete(f"{URL}nightly/").status_code == 204
    assert client.delete(f"/api/v1/optimizer/traces/{trace}/").status_code == 204


def test_a_schedule_whose_trace_went_can_be_paused(api: Api, client: APIClient, trace: int, tmp_path) -> None:
    make_storage(tmp_path)
    make_group("chat")
    assert add(client, trace, instance_group="chat").status_code == 201
    # The trace is of all groups: this account does not see it, but its group's schedule.
    assert api(groups=["chat"]).patch(f"{URL}nightly/", {"paused": True}).status_code == 200
    OptimizerTrace.objects.all().delete()
    assert client.patch(f"{URL}nightly/", {"paused": False, "note": "x"}).status_code == 200
    again = client.patch(f"{URL}nightly/", {"trace": trace})
    assert (again.status_code, again.json()["field"]) == (404, "trace")
