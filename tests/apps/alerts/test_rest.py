"""Alerts, rules and silences over REST (docs/api.md)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.alerts.models import Alert, AlertSilence
from apps.alerts.services import rules
from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.live.overview import overview
from tests.apps.alerts.conftest import World
from tests.apps.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
BASE = "/api/v1"


@pytest.fixture
def firing(world: World) -> World:
    world.now = timezone.now() - timedelta(seconds=60)
    world.holds_for("nfs_a", groups=("chat", "search"))
    world.round()
    world.passes(10)
    world.round()
    return world


def subjects(answer: object) -> list[str]:
    return [row["subject"] for row in answer.json()["results"]]  # type: ignore[attr-defined]


def test_misspelled_members_are_refused_by_name(api: Api, firing: World) -> None:
    admin, until = api(Role.ADMIN), (timezone.now() + timedelta(hours=1)).isoformat()
    alert = Alert.objects.get()
    for path, body in [
        ("alert-rules/", {"name": "mine", "condition": "disk_hangs", "for_second": 1}),
        ("alert-silences/", {"until": until, "reason": "night", "subjects": "nfs_a"}),
        ("alert-receivers/", {"name": "pager", "url": "https://a.example/", "timeout": 1}),
        (f"alerts/{alert.pk}/acknowledge/", {"acknowledge": False}),
    ]:
        answer = admin.post(f"{BASE}/{path}", body)
        assert (answer.status_code, answer.json()["field"]) == (400, list(body)[-1])


def test_rules_are_bounded(api: Api, firing: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES_AT_MOST", 2)
    made = [
        api().post(f"{BASE}/alert-rules/", {"name": name, "condition": "disk_hangs"}) for name in ("a", "b")
    ]
    assert [answer.status_code for answer in made] == [201, 409]
    assert made[1].json()["code"] == "reach_max_entity_capacity"


def test_the_list_shows_what_fires_unless_asked_for_more(api: Api, firing: World) -> None:
    firing.holds_for("nfs_a", "nfs_b", groups=("chat", "search"))
    firing.round()
    viewer = api(Role.VIEWER)
    answer = viewer.get(f"{BASE}/alerts/").json()
    assert answer["count"] == 1
    (row,) = answer["results"]
    assert (row["rule"], row["state"], row["severity"]) == ("disk_hangs", "firing", "critical")
    assert (row["groups"], row["acknowledged"], row["silenced"]) == (["chat", "search"], False, False)
    assert subjects(viewer.get(f"{BASE}/alerts", {"state": "pending"})) == ["nfs_b"]
    assert subjects(viewer.get(f"{BASE}/alerts", {"state": ["pending", "firing"]})) == ["nfs_b", "nfs_a"]
    assert subjects(viewer.get(f"{BASE}/alerts", {"state": "all", "subject": "nfs_a"})) == ["nfs_a"]
    for name, value, found in [
        ("severity", "critical", ["nfs_a"]),
        ("severity", "info", []),
        ("rule", "disk_hangs", ["nfs_a"]),
        ("acknowledged", "true", []),
        ("acknowledged", "false", ["nfs_a"]),
        ("silenced", "true", []),
        ("subject_kind", "instance", []),
        ("instance_group", "search", ["nfs_a"]),
        ("search", "hangs at", ["nfs_a"]),
    ]:
        assert subjects(viewer.get(f"{BASE}/alerts/", {name: value})) == found, name
    assert viewer.get(f"{BASE}/alerts/", {"state": "odd"}).json()["field"] == "state"


def test_acknowledge_and_history(api: Api, firing: World) -> None:
    pk = Alert.objects.get().pk
    assert api(Role.VIEWER).post(f"{BASE}/alerts/{pk}/acknowledge/").status_code == 403
    operator = api(Role.OPERATOR)
    answer = operator.post(f"{BASE}/alerts/{pk}/acknowledge/", {"note": "on it"}).json()
    assert (answer["acknowledged"], answer["acknowledge_note"]) == (True, "on it")
    assert operator.get(f"{BASE}/alerts/{pk}/").json()["acknowledged_by"] == answer["acknowledged_by"]
    history = operator.get(f"{BASE}/alerts/{pk}/history/").json()
    assert [step["what"] for step in history["results"]] == ["pending", "firing", "acknowledged"]
    operator.post(f"{BASE}/alerts/{pk}/acknowledge/", {"acknowledged": False})
    assert not operator.get(f"{BASE}/alerts/{pk}/").json()["acknowledged"]
    assert operator.get(f"{BASE}/alerts/999/").json()["code"] == "not_found"
    assert AuditEntry.objects.filter(action="alert.acknowledge").count() == 1


def test_an_account_limited_to_groups_sees_and_takes_on_its_own(api: Api, firing: World) -> None:
    theirs = Alert.objects.get()
    mine, others = api(Role.OPERATOR, groups=["chat"]), api(Role.OPERATOR, groups=["other"])
    assert mine.get(f"{BASE}/alerts/").json()["results"][0]["groups"] == ["chat"]
    assert mine.post(f"{BASE}/alerts/{theirs.pk}/acknowledge/").status_code == 200
    assert others.get(f"{BASE}/alerts/").json()["count"] == 0
    for path in (f"alerts/{theirs.pk}/", f"alerts/{theirs.pk}/history/"):
        assert others.get(f"{BASE}/{path}").status_code == 404
    assert others.post(f"{BASE}/alerts/{theirs.pk}/acknowledge/").status_code == 404
    assert subjects(mine.get(f"{BASE}/alerts/", {"instance_group": "search"})) == []
    until = (timezone.now() + timedelta(hours=1)).isoformat()
    assert mine.get(f"{BASE}/alert-silences/").status_code == 403
    assert mine.post(f"{BASE}/alert-silences/", {"until": until, "reason": "x"}).status_code == 403
    assert mine.patch(f"{BASE}/alert-rules/disk_hangs/", {"enabled": False}).status_code == 403
    assert mine.delete(f"{BASE}/alert-rules/disk_hangs/").status_code == 403
    firing.holds_for("nfs_a", groups=None)
    firing.round()
    assert mine.get(f"{BASE}/alerts/").json()["count"] == 0


def test_conditions_say_what_a_rule_can_be(api: Api, world: World) -> None:
    (row,) = api(Role.VIEWER).get(f"{BASE}/alert-conditions/").json()["results"]
    assert row["name"] == "disk_hangs" and row["parameters"][0]["name"] == "used_ratio"
    assert row["parameters"][0]["maximum"] == 1.0


def test_rules(api: Api, world: World) -> None:
    world.round()
    operator = api(Role.OPERATOR)
    (first,) = operator.get(f"{BASE}/alert-rules/").json()["results"]
    assert (first["name"], first["enabled"], first["version"]) == ("disk_hangs", True, 1)
    made = operator.post(
        f"{BASE}/alert-rules/",
        {"name": "early", "condition": "disk_hangs", "parameters": {"used_ratio": 0.5}, "subjects": ["a*"]},
    )
    assert made.status_code == 201 and made.json()["severity"] == "warning"
    changed = operator.patch(f"{BASE}/alert-rules/early/", {"for_seconds": 7, "version": 1}).json()
    assert (changed["for_seconds"], changed["parameters"], changed["version"]) == (7, {"used_ratio": 0.5}, 2)
    stale = operator.patch(f"{BASE}/alert-rules/early/", {"for_seconds": 8}, HTTP_IF_MATCH='"1"')
    assert (stale.status_code, stale.json()["code"]) == (409, "version_conflict")
    assert operator.get(f"{BASE}/alert-rules/early/").json()["for_seconds"] == 7
    assert operator.delete(f"{BASE}/alert-rules/early/").status_code == 204
    assert operator.get(f"{BASE}/alert-rules/early/").status_code == 404
    assert api(Role.VIEWER).delete(f"{BASE}/alert-rules/disk_hangs/").status_code == 403
    actions = AuditEntry.objects.filter(object_name="early").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["alert_rule.add", "alert_rule.update", "alert_rule.remove"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"condition": "no_such"}, "condition"),
        ({"parameters": {"used_ratio": 1.5}}, "parameters.used_ratio"),
        ({"parameters": {"odd": 1}}, "parameters.odd"),
        ({"severity": "loud"}, "severity"),
        ({"for_seconds": -1}, "for_seconds"),
        ({"keep_firing_seconds": 10**9}, "keep_firing_seconds"),
        ({"subjects": ["a"] * 51}, "subjects"),
    ],
)
def test_a_bad_rule_names_its_field(api: Api, world: World, change: dict, field: str) -> None:
    body = {"name": "early", "condition": "disk_hangs", **change}
    answer = api(Role.OPERATOR).post(f"{BASE}/alert-rules/", body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_silences(api: Api, firing: World) -> None:
    operator = api(Role.OPERATOR)
    until = timezone.now() + timedelta(hours=1)
    body = {"rule": "disk_hangs", "subject": "nfs_*", "until": until.isoformat(), "reason": "new disks"}
    made = operator.post(f"{BASE}/alert-silences/", body)
    assert made.status_code == 201
    assert subjects(operator.get(f"{BASE}/alerts/", {"silenced": "true"})) == ["nfs_a"]
    assert operator.get(f"{BASE}/alert-silences/").json()["count"] == 1
    assert operator.delete(f"{BASE}/alert-silences/{made.json()['id']}/").status_code == 204
    assert subjects(operator.get(f"{BASE}/alerts/", {"silenced": "true"})) == []
    assert operator.get(f"{BASE}/alert-silences/").json()["count"] == 0
    assert operator.get(f"{BASE}/alert-silences/", {"ended": "true"}).json()["count"] == 1


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"reason": ""}, 400, "reason"),
        ({"until": "2001-01-01T00:00:00Z"}, 400, "until"),
        ({"until": "2101-01-01T00:00:00Z"}, 400, "until"),
        ({"rule": "no_such"}, 404, "name"),
        ({"subject": "x" * 257}, 400, "subject"),
    ],
)
def test_a_bad_silence(api: Api, world: World, change: dict, status: int, field: str) -> None:
    until = (timezone.now() + timedelta(hours=1)).isoformat()
    answer = api(Role.OPERATOR).post(f"{BASE}/alert-silences/", {"until": until, "reason": "x", **change})
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not AlertSilence.objects.exists()


def test_figures_for_prometheus(index, firing: World) -> None:
    overview.cache_clear()
    text = Client().get("/metrics").content.decode()
    assert 'kvcm_alerts_firing{rule="disk_hangs",severity="critical"} 1.0' in text
    overview.cache_clear()
