"""Reports from their trace to the word to recipients, and what is kept of them."""

from __future__ import annotations

import smtplib
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.core import mail
from django.utils import timezone
from rest_framework.test import APIClient

from apps.alerts.selectors import conditions_by_name
from apps.audit.models import Event
from apps.common.actor import Role
from apps.instances.services import group_remove
from apps.optimizer_reports.choices import RunState
from apps.optimizer_reports.models import OptimizerRun, OptimizerTrace, Report, ReportMail, ReportSchedule
from apps.optimizer_reports.services.report_mails import ATTEMPTS_AT_MOST, mails_send
from apps.optimizer_reports.services.report_retention import reports_prune
from apps.optimizer_reports.services.report_rounds import reports_round
from apps.optimizer_reports.services.report_sources import trace_choose
from apps.optimizer_reports.services.reports import report_advance
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
URL = "/api/v1/optimizer/schedules/"
REPORTS = "/api/v1/optimizer/reports/"
SMALL = {"policies": ["lru"], "hot_prefixes": 0, "has_bound": False, "windows": 0}
TO = ["ada@example.org", "olga@example.org"]


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is tested elsewhere, and loads much."""
    monkeypatch.setattr(
        "apps.optimizer_reports.services.report_page.run_page",
        lambda *, run, tables: f"<html>{[(table.title, table.rows) for table in tables]}</html>",
    )


@pytest.fixture
def client(api: Api) -> APIClient:
    return api()


@pytest.fixture
def trace() -> OptimizerTrace:
    return make_trace()


def make_trace(state: str = "ready", source: str = "upload", folder: str = "t") -> OptimizerTrace:
    return OptimizerTrace.objects.create(
        name=folder,
        source=source,
        state=state,
        folder=folder,
        added_by="olga",
        added_at=timezone.now(),
        requests=10,
        blocks=100,
        distinct_blocks=40,
        span_us=1_000_000,
        instances=[{"instance_id": "m", "group": "", "block_tokens": 16, "block_bytes": 1024, "blocks": 100}],
        types=[],
    )


def add(client: APIClient, trace: OptimizerTrace | None = None, **members) -> ReportSchedule:
    body = {"name": "nightly", "cron": "0 6 * * *", "source": "trace", "template": SMALL}
    if trace is not None:
        body["trace"] = trace.pk
    answer = client.post(URL, {**body, **members})
    assert answer.status_code == 201, answer.content
    return ReportSchedule.objects.get(name="nightly")


def summary(hit_rate: float | None, best: float | None = None) -> dict:
    row = {
        "policy": "lru",
        "unit": "blocks",
        "points": [],
        "knee": {"capacity": 100, "hit_rate": 0.2},
        "hit_rate_at_quota": hit_rate,
        "token_hit_rate_at_quota": hit_rate,
        "best": None if best is None else {"capacity_bytes": best, "net_money_month": 5.0},
    }
    return {
        "unlimited_hit_rate": 0.5,
        "quota_bytes": 1000,
        "best_policy_at_quota": "lru",
        "policies": [row],
    }


def ended(report: Report, *, state: str = RunState.DONE, reason: str = "", **figures: float) -> None:
    """Its run ends, as if a worker had done its jobs."""
    OptimizerRun.objects.filter(pk=report.run_id).update(
        state=state,
        reason=reason,
        summary=summary(**figures) if figures else None,
        ended_at=timezone.now(),
    )


def made(client: APIClient, hit_rate: float = 0.3, **figures: float) -> Report:
    """A report that was asked for, from its beginning to its end."""
    pk = client.post(f"{URL}nightly/run/").json()["id"]
    while report_advance(pk):
        report = Report.objects.get(pk=pk)
        if report.run_id:
            ended(report, hit_rate=hit_rate, **figures)
    return Report.objects.get(pk=pk)


def test_report_from_trace_to_page(client: APIClient, trace: OptimizerTrace, tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    add(client, trace, instance_group="chat", recipients=TO, mails_when="always")
    first = made(client, 0.30)
    assert (first.state, first.figures["hit_rate"], first.change) == ("done", 0.3, None)
    run = OptimizerRun.objects.get(pk=first.run_id)
    assert (run.origin, run.group_name, run.asked_by) == ("schedule", "chat", "system:schedule nightly")
    assert run.spec["quota_bytes"] == 1_000_000

    second = made(client, 0.35)
    assert second.is_changed and second.change["report"] == first.pk
    assert second.change["hit_rate"] == pytest.approx(0.05)
    sentence = "The hit rate at the quota went from 30.0% to 35.0%, the knee stayed at 100 blocks."
    shown = client.get(f"{REPORTS}{second.pk}/").json()
    assert shown["change"]["sentence"] == sentence and len(shown["mails"]) == 2
    answer = client.get(f"{REPORTS}{second.pk}/html/")
    assert answer["Content-Type"].startswith("text/html") and sentence in answer.content.decode()
    assert "sandbox" in answer["Content-Security-Policy"]
    event = Event.objects.get(kind="optimizer_report.changed")
    assert sentence in event.message and event.subject == "nightly"
    assert client.get(f"{REPORTS}?changed=true").json()["count"] == 1
    assert client.get(f"{REPORTS}?state=done&schedule=nightly").json()["count"] == 2


def test_alerts_tell_of_changes_until_a_report_says_otherwise(
    client: APIClient, trace: OptimizerTrace
) -> None:
    changed = conditions_by_name()["optimizer_report_changed"]
    failed = conditions_by_name()["optimizer_report_failed"]
    day = {"recent_seconds": 86_400}
    add(client, trace)
    made(client, 0.30)
    assert list(changed.check(day)) == []
    made(client, 0.35)
    assert [finding.subject for finding in changed.check(day)] == ["nightly"]
    Report.objects.update(ended_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert list(changed.check(day)) == []
    made(client, 0.36)
    assert list(changed.check(day)) == [] == list(failed.check(day))
    OptimizerTrace.objects.all().delete()
    assert made(client).reason == "the trace of the schedule was deleted"
    assert [finding.subject for finding in failed.check(day)] == ["nightly"]
    assert Event.objects.filter(kind="optimizer_report.failed").count() == 1


def test_a_run_that_fails_or_goes_ends_the_report(client: APIClient, trace: OptimizerTrace) -> None:
    add(client, trace)
    for state, begin in (
        ("failed", "optimizer run {} failed: out of"),
        ("cancelled", "optimizer run {} was"),
    ):
        pk = client.post(f"{URL}nightly/run/").json()["id"]
        while report_advance(pk):
            if Report.objects.get(pk=pk).run_id:
                break
        run_id = Report.objects.get(pk=pk).run_id
        ended(Report.objects.get(pk=pk), state=state, reason="out of memory")
        assert report_advance(pk)
        report = Report.objects.get(pk=pk)
        assert report.state == "failed" and report.reason.startswith(begin.format(run_id))
    pk = client.post(f"{URL}nightly/run/").json()["id"]
    while not Report.objects.get(pk=pk).run_id:
        report_advance(pk)
    OptimizerRun.objects.filter(pk=Report.objects.get(pk=pk).run_id).delete()
    report_advance(pk)
    assert Report.objects.get(pk=pk).reason == "its optimizer run was deleted"


def test_trace_that_is_still_read_is_waited_for_and_no_longer_than_makes_sense(client: APIClient) -> None:
    trace = make_trace(state="reading")
    schedule = add(client, trace)
    pk = client.post(f"{URL}nightly/run/").json()["id"]
    assert report_advance(pk)
    assert not report_advance(pk) and not report_advance(pk)
    Report.objects.filter(pk=pk).update(created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert report_advance(pk)
    assert Report.objects.get(pk=pk).reason.startswith("it was not ready after 3 days")
    OptimizerTrace.objects.filter(pk=trace.pk).update(state="failed", reason="no request in it")
    pk = client.post(f"{URL}nightly/run/").json()["id"]
    assert report_advance(pk) and report_advance(pk)
    assert Report.objects.get(pk=pk).reason == "trace t cannot be used: no request in it"
    assert schedule.reports.count() == 2


def test_last_capture_is_the_newest_of_the_group_alone(client: APIClient, tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    add(client, source="last_capture", instance_group="chat")
    assert made(client).reason == "no capture of instance group chat is ready"
    mine = make_trace(source="capture", folder="a")
    mine.groups.create(name="chat")
    both = make_trace(source="capture", folder="b")
    both.groups.create(name="chat")
    both.groups.create(name="other")
    make_trace(source="capture", folder="c", state="capturing").groups.create(name="chat")
    assert made(client).trace_id == mine.pk


def test_captures_of_an_earlier_group_of_the_same_name_are_not_of_this_one(
    client: APIClient, tmp_path
) -> None:
    make_storage(tmp_path)
    make_group()
    add(client, source="last_capture", instance_group="chat")
    mine = make_trace(source="capture", folder="a")
    mine.groups.create(name="chat")
    OptimizerTrace.objects.update(added_at=timezone.now())
    assert made(client).trace_id == mine.pk
    group_remove(acting=ADMIN, name="chat")
    assert "does not exist" in made(client).reason
    make_group()
    assert made(client).reason == "no capture of instance group chat is ready"


def test_live_traffic_is_captured_for_each_report(client: APIClient, tmp_path, index: redis.Redis) -> None:
    make_storage(tmp_path)
    make_group()
    make_instance()
    make_instance("model-b")
    add(client, source="capture", instance_group="chat", capture_seconds=60)
    pk = client.post(f"{URL}nightly/run/").json()["id"]
    # It died when the capture had begun: that is the one that the report is of.
    begun = trace_choose(Report.objects.get(pk=pk))
    assert report_advance(pk)
    report = Report.objects.get(pk=pk)
    assert report.trace_id == begun.pk and OptimizerTrace.objects.count() == 1
    assert (begun.state, begun.capture["seconds"]) == ("capturing", 60)
    assert [one["instance_id"] for one in begun.capture["instances"]] == ["model-a", "model-b"]
    assert not report_advance(pk)
    OptimizerTrace.objects.update(state="failed", reason="nothing was asked for")
    report_advance(pk)
    assert Report.objects.get(pk=pk).reason.endswith("cannot be used: nothing was asked for")


def test_a_capture_waits_for_others_and_not_for_ever(
    client: APIClient, tmp_path, index: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.optimizer_reports.services.live_captures.MOST_AT_ONCE", 0)
    make_storage(tmp_path)
    make_group()
    make_instance()
    add(client, source="capture", instance_group="chat")
    pk = client.post(f"{URL}nightly/run/").json()["id"]
    assert not report_advance(pk) and Report.objects.get(pk=pk).state == "collecting"
    Report.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert report_advance(pk)
    assert "captures are under way" in Report.objects.get(pk=pk).reason


def test_messages_carry_the_page_and_go_once(client: APIClient, trace: OptimizerTrace) -> None:
    add(client, trace, recipients=TO)
    made(client, 0.30)
    # By default only what changed is sent.
    assert mails_send().sent == 0
    report = made(client, 0.35)
    assert mails_send().sent == 2 and mails_send().sent == 0
    assert sorted(message.to[0] for message in mail.outbox) == TO
    message = mail.outbox[0]
    assert message.subject.startswith("KVCM optimizer: nightly changed, ")
    assert "The hit rate at the quota went from 30.0% to 35.0%" in message.body
    name, content, kind = message.attachments[0]
    assert name.startswith("nightly-") and kind == "text/html" and content.startswith("<html>")
    assert {row.state for row in ReportMail.objects.filter(report=report)} == {"sent"}


def test_failure_of_the_mail_server_is_noted_and_tried_again(
    client: APIClient, trace: OptimizerTrace
) -> None:
    add(client, trace, recipients=TO[:1], mails_when="always")
    report = made(client)
    assert report.state == "done"

    def refused(_: object) -> None:
        raise smtplib.SMTPRecipientsRefused({TO[0]: (550, b"no such mailbox")})

    for attempt in range(1, ATTEMPTS_AT_MOST + 1):
        mails_send(send=refused)
        row = ReportMail.objects.get()
        assert (row.attempts, "550" in row.error) == (attempt, True)
        # Not due yet.
        mails_send(send=refused)
        assert ReportMail.objects.get().attempts == attempt
        ReportMail.objects.update(due_at=datetime(2027, 1, 1, tzinfo=UTC) - timedelta(days=365))
    assert ReportMail.objects.get().state == "failed"
    assert Report.objects.get(pk=report.pk).state == "done"


def test_a_sender_that_dies_leaves_the_message_to_the_next(client: APIClient, trace: OptimizerTrace) -> None:
    add(client, trace, recipients=TO[:1], mails_when="always")
    made(client)

    def dies(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mails_send(send=dies)
    # Somebody may still be sending it: nobody else does until that must be over.
    assert mails_send().sent == 0
    ReportMail.objects.update(due_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert mails_send().sent == 1
    row = ReportMail.objects.get()
    assert row.due_at <= row.ended_at


def test_old_reports_go_with_what_was_made_for_them(client: APIClient, trace: OptimizerTrace) -> None:
    add(client, trace, keep_reports=2)
    reports = [made(client) for _ in range(4)]
    assert reports_prune() == 2
    assert list(Report.objects.order_by("id").values_list("pk", flat=True)) == [one.pk for one in reports[2:]]
    runs = OptimizerRun.objects.order_by("id").values_list("pk", flat=True)
    assert list(runs) == [one.run_id for one in reports[2:]]
    # The trace of the schedule was there before it.
    assert OptimizerTrace.objects.filter(pk=trace.pk).exists()


def test_accounts_of_some_groups_see_their_reports(
    api: Api, client: APIClient, trace: OptimizerTrace, tmp_path
) -> None:
    make_storage(tmp_path)
    make_group()
    add(client, trace, instance_group="chat")
    report = made(client)
    assert api(Role.VIEWER, groups=["chat"]).get(f"{REPORTS}{report.pk}/").status_code == 200
    stranger = api(Role.VIEWER, groups=["other"])
    assert stranger.get(REPORTS).json()["count"] == 0
    assert stranger.get(f"{REPORTS}{report.pk}/html/").status_code == 404
    assert api(Role.VIEWER).post(f"{REPORTS}{report.pk}/cancel/").status_code == 403


def test_a_round_does_all_of_it(client: APIClient, trace: OptimizerTrace) -> None:
    add(client, trace)
    ReportSchedule.objects.update(since=datetime(2026, 1, 1, tzinfo=UTC))
    # It takes the report on that was missed, its trace, and the run, a step each.
    assert reports_round()["begun"] == 1
    assert Report.objects.get().trace_id == trace.pk
    reports_round()
    assert Report.objects.get().state == "running"
