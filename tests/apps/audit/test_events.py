"""The feed of what happened: filtered, paged, each account its own part, and never large."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from apps.audit import services
from apps.audit.models import Event, EventGroup
from apps.audit.services import event_record, events_forget
from apps.common.actor import Role
from apps.common.conditions import Severity
from tests.apps.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
FEED = "/api/v1/events/"


def happen(subject: str = "nfs_a", kind: str = "storage.unavailable", **more: object) -> None:
    values = {"at": timezone.now(), "subject_kind": "storage", "message": f"{subject} hangs", **more}
    event_record(kind=kind, subject=subject, **values)  # type: ignore[arg-type]


def subjects(answer: object) -> list[str]:
    return [row["subject"] for row in answer.json()["results"]]  # type: ignore[attr-defined]


def test_newest_first_in_pages(api: Api) -> None:
    for name in ("a", "b", "c"):
        happen(name)
    first = api(Role.VIEWER).get(FEED, {"page_size": 2}).json()
    assert first["count"] == 3 and first["next"]
    assert [row["subject"] for row in first["results"]] == ["c", "b"]
    assert first["results"][0]["groups"] is None
    assert first["results"][0]["severity"] == "info"


def test_filters(api: Api) -> None:
    now = timezone.now()
    happen("a", severity=Severity.CRITICAL, groups=["chat"])
    happen("b", kind="storage.available", at=now - timedelta(days=2))
    viewer = api(Role.VIEWER)
    assert subjects(viewer.get(FEED, {"severity": "critical"})) == ["a"]
    assert subjects(viewer.get(FEED, {"kind": "storage.available"})) == ["b"]
    assert subjects(viewer.get(FEED, {"subject": "b", "subject_kind": "storage"})) == ["b"]
    assert subjects(viewer.get(FEED, {"instance_group": "chat"})) == ["a"]
    assert subjects(viewer.get(FEED, {"since": (now - timedelta(hours=1)).isoformat()})) == ["a"]
    assert subjects(viewer.get(FEED, {"until": (now - timedelta(hours=1)).isoformat()})) == ["b"]
    assert subjects(viewer.get(FEED, {"search": "disk full"})) == []
    assert subjects(viewer.get(FEED, {"search": "hangs unavailable"})) == ["a"]
    assert viewer.get(FEED, {"severity": "loud"}).status_code == 400


def test_an_account_limited_to_groups_sees_its_own_part(api: Api) -> None:
    happen("everyones")
    happen("both", groups=["chat", "search"])
    happen("theirs", groups=["search"])
    limited = api(Role.VIEWER, groups=["chat"])
    answer = limited.get(FEED).json()
    assert [(row["subject"], row["groups"]) for row in answer["results"]] == [("both", ["chat"])]
    assert subjects(limited.get(FEED, {"instance_group": "search"})) == []
    assert subjects(api(Role.VIEWER).get(FEED, {"instance_group": "search"})) == ["theirs", "both"]


def test_an_event_stands_or_falls_with_what_it_tells() -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        happen(groups=["chat"])
        raise RuntimeError
    assert not Event.objects.exists()


def test_old_ones_and_those_beyond_the_limit_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    happen("old", at=now - services.EVENTS_KEPT - timedelta(minutes=1), groups=["chat"])
    for name in ("a", "b", "c"):
        happen(name)
    assert events_forget(now=now) == 1
    assert not EventGroup.objects.exists()
    monkeypatch.setattr(services, "EVENTS_AT_MOST", 2)
    assert events_forget(now=now) == 1
    assert [event.subject for event in Event.objects.all()] == ["c", "b"]
    assert events_forget(now=now) == 0


def test_secrets_in_messages_are_masked() -> None:
    happen(message="redis://user:secret@host does not answer")
    assert "secret" not in Event.objects.get().message
