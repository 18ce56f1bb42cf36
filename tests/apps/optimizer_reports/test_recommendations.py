"""Recommendations: made of a finished run, applied through the group, taken back, stale, expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.instances.selectors import group_get
from apps.instances.services import group_create, group_remove
from apps.optimizer_reports.models import OptimizerRun, Recommendation, RunAdvice
from apps.optimizer_reports.services import recommendations as making
from apps.optimizer_reports.services.cost_models import cost_model_add
from apps.optimizer_reports.services.recommendations import recommendations_expire, recommendations_make
from kvcm_platform.core.registry import Quota, ReclaimSettings
from kvcm_platform.optimizer.analysis.results import Found
from kvcm_platform.optimizer.analysis.spec import spec_from_json
from kvcm_platform.optimizer.curve import Curve, Definition, Unit, curve_to_json
from kvcm_platform.optimizer.roi import MONTH_SECONDS
from tests.apps.conftest import Api
from tests.apps.optimizer_reports.histories import History
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
URL = "/api/v1/optimizer/recommendations/"
GIB = 1 << 30
COST = {
    # A block that is hit spares 100 s, and a second costs 1; a GiB costs 150 a month.
    "model": {
        "name": "hand",
        "kv_bytes_per_token": 1.0,
        "flops_per_token": 1e12,
        "flops_per_token_position": 0.0,
    },
    "effective_flops": 1e12,
    "gpu_hour_price": 3600,
    "tiers": [{"name": "disk", "price_per_gib_month": 150}],
    "currency": "EUR",
}


def curve(hits: dict[int, int], policy: str = "lru", blocks: int = 1000) -> Curve:
    """Of blocks hit by GiB held, a month long."""
    found = np.asarray(list(hits.values()), dtype=np.int64)
    return Curve(
        definition=Definition(policy, unit=Unit.BYTES),
        capacities=np.asarray([size * GIB for size in hits], dtype=np.int64),
        hit_blocks=found,
        hit_tokens=found * 100,
        hit_bytes=found * GIB,
        hit_token_positions=np.zeros(len(found)),
        full_hit_requests=found,
        requests=blocks,
        blocks=blocks,
        tokens=blocks * 100,
        bytes=blocks * GIB,
        distinct_blocks=100,
        distinct_bytes=100 * GIB,
        unlimited_hit_blocks=int(found[-1]),
        unlimited_hit_tokens=int(found[-1]) * 100,
        span_us=round(MONTH_SECONDS * 1e6),
    )


CURVES = {"lru": curve({10: 100, 20: 130, 40: 180, 80: 210})}


@pytest.fixture(autouse=True)
def group(tmp_path) -> None:
    """A group of 25 GiB whose marks hold 20 of them on average."""
    make_storage(tmp_path)
    reclaim = ReclaimSettings(used_ratio=0.9, low_watermark_ratio=0.7)
    make_group(quota=Quota(25 * GIB), reclaim=reclaim)


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch):
    """Puts runs on record that are done and found the given curves."""
    found: dict[int, tuple] = {}
    monkeypatch.setattr(making, "run_found", lambda run: found[run.pk])

    def make(curves=CURVES, *, group: str = "chat", details: dict | None = None, **spec) -> OptimizerRun:
        now = timezone.now()
        run = OptimizerRun.objects.create(
            trace_name="t", group_name=group, state="done", asked_by="olga", asked_at=now, ended_at=now
        )
        run.trace_facts = {"instances": [{"instance_id": "of-chat", "group": group}]}
        run.save()
        found[run.pk] = (spec_from_json(spec), Found(curves, details, None))
        return run

    return make


@pytest.fixture
def client(api: Api) -> APIClient:
    return api()


def settings():
    return group_get(acting=ADMIN, name="chat").settings


def open_ones(client: APIClient) -> list[dict]:
    return client.get(f"{URL}?state=open").json()["results"]


def test_from_a_run_to_the_group_and_back(client: APIClient, finished) -> None:
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    run = finished()
    assert recommendations_make() == 1
    (one,) = open_ones(client)
    assert (one["kind"], one["instance_group"], one["run"]) == ("quota", "chat", run.pk)
    assert one["changes"] == {"quota": {"capacity_bytes": 50 * GIB}}
    assert one["differences"] == {"quota.capacity_bytes": {"before": 25 * GIB, "after": 50 * GIB}}
    # 40 GiB leave 18,000 - 6,000, 20 GiB 13,000 - 3,000.
    assert "2,000 EUR a month more" in one["sentence"]
    assert (one["applicable"], one["stale"], one["group_version"]) == (True, False, 1)

    # A dry run changes nothing; the index is away here, so nobody can say what reclaim would take.
    dry = client.post(f"{URL}{one['id']}/apply/", {"dry_run": True}).json()
    assert (dry["applied"], dry["foreseen"], dry["recommendation"]["state"]) == (False, "", "open")
    assert settings().quota.capacity_bytes == 25 * GIB

    done = client.post(f"{URL}{one['id']}/apply/", {"version": 1}).json()
    assert (done["applied"], done["recommendation"]["state"]) == (True, "applied")
    assert done["recommendation"]["applied_version"] == 2
    assert settings().quota.capacity_bytes == 50 * GIB
    assert client.post(f"{URL}{one['id']}/apply/", {}).json()["code"] == "version_conflict"

    undone = client.post(f"{URL}{one['id']}/undo/").json()
    assert (undone["state"], settings().quota.capacity_bytes) == ("undone", 25 * GIB)
    assert client.post(f"{URL}{one['id']}/undo/").json()["code"] == "version_conflict"
    entries = AuditEntry.objects.filter(object_kind="instance_group", object_name="chat").order_by("id")
    assert [entry.action for entry in entries][1:] == [
        *("group.update", "recommendation.apply", "group.update", "recommendation.undo"),
    ]


def test_marks_in_bytes_count_like_ratios(client: APIClient, finished) -> None:
    reclaim = ReclaimSettings(used_ratio=0.0, used_bytes=45 * GIB // 2, low_watermark_ratio=0.7)
    make_group("other", quota=Quota(25 * GIB), reclaim=reclaim)
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    finished(group="other")
    assert recommendations_make() == 1
    # 22.5 and 17.5 GiB: 20 on average, as with the ratios of the group above.
    (one,) = open_ones(client)
    assert one["changes"] == {"quota": {"capacity_bytes": 50 * GIB}}
    assert "2,000 EUR a month more" in one["sentence"]


def test_all_kinds_that_change_settings_can_be_applied_and_undone(client: APIClient, finished) -> None:
    before = settings()
    now = int(timezone.now().timestamp()) // 3600 * 3600
    history = History()
    # 0.1 GiB a second in one minute.
    history.held(now - 3600, 0, written_bytes=6 * GIB)
    history.done(now, now)
    finished({"lru": curve({8: 100, 20: 100, 22: 130}), "lfu": curve({8: 100, 20: 150, 22: 160}, "lfu")})
    recommendations_make()
    found = {one["kind"]: one for one in open_ones(client)}
    # 1.2 GiB of 25 for 12 s: the delay before a deletion is a second.
    assert found["watermark"]["changes"] == {"reclaim": {"used_ratio": 0.95, "low_watermark_ratio": 0.9}}
    assert found["policy"]["changes"] == {"reclaim": {"policy": "lfu"}}
    assert client.post(f"{URL}{found['policy']['id']}/apply/", {}).status_code == 200
    assert settings().reclaim.policy == "lfu"
    # Its own settings are as they were, so it is not stale.
    assert client.post(f"{URL}{found['watermark']['id']}/apply/", {}).status_code == 200
    assert (settings().reclaim.used_ratio, settings().reclaim.low_watermark_ratio) == (0.95, 0.9)
    for kind in ("watermark", "policy"):
        assert client.post(f"{URL}{found[kind]['id']}/undo/").status_code == 200
    assert settings() == before


def test_other_settings_than_it_was_made_for_make_it_stale(client: APIClient, finished) -> None:
    finished()
    recommendations_make()
    (one,) = open_ones(client)
    groups = "/api/v1/instance-groups/chat/"
    # What has nothing to do with it does not matter.
    client.patch(groups, {"user_data": "x"})
    assert open_ones(client)[0]["stale"] is False
    assert client.post(f"{URL}{one['id']}/apply/", {"version": 1}).json()["code"] == "version_conflict"
    client.patch(groups, {"quota": {"capacity_bytes": 30 * GIB}})
    assert (open_ones(client)[0]["stale"], open_ones(client)[0]["applicable"]) == (True, False)
    answer = client.post(f"{URL}{one['id']}/apply/", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "version_conflict")
    assert "stale" in answer.json()["message"]
    assert settings().quota.capacity_bytes == 30 * GIB


def test_what_was_changed_again_is_not_taken_back(client: APIClient, finished) -> None:
    finished()
    recommendations_make()
    (one,) = open_ones(client)
    client.post(f"{URL}{one['id']}/apply/", {})
    client.patch("/api/v1/instance-groups/chat/", {"quota": {"capacity_bytes": 99 * GIB}})
    assert client.post(f"{URL}{one['id']}/undo/").json()["code"] == "version_conflict"
    assert settings().quota.capacity_bytes == 99 * GIB


def test_a_newer_run_supersedes_and_each_is_looked_at_once(client: APIClient, finished) -> None:
    first = finished()
    assert recommendations_make() == 1 and recommendations_make() == 0
    second = finished()
    assert recommendations_make() == 1
    assert [(row.run_id, row.state) for row in Recommendation.objects.order_by("id")] == [
        (first.pk, "superseded"),
        (second.pk, "open"),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"instances": ["m"]}, "a part of the traffic"),
        ({"is_sampled": True}, "sampled"),
        ({"curves": {"lfu": curve({10: 1}, "lfu")}, "policies": ["lfu"]}, "no curve of LRU"),
        ({"group": "gone"}, "does not exist"),
    ],
)
def test_runs_that_do_not_say_enough_recommend_nothing(finished, change: dict, why: str) -> None:
    finished(**change)
    assert recommendations_make() == 0
    assert why in RunAdvice.objects.get().reason


def test_instances_are_for_people_to_act_on(client: APIClient, finished) -> None:
    parts = {"good": curve({20: 300}, blocks=500), "crawler": curve({20: 0}, blocks=500)}
    details = {"by_instance": {name: curve_to_json(one) for name, one in parts.items()}}
    finished({"lru": curve({20: 300})}, details=details)
    recommendations_make()
    (one,) = open_ones(client)
    assert (one["kind"], one["instance_id"], one["applicable"]) == ("instance", "crawler", False)
    assert client.post(f"{URL}{one['id']}/apply/", {}).json()["code"] == "unsupported"
    gone = client.post(f"{URL}{one['id']}/dismiss/", {"note": "it is meant to"}).json()
    assert (gone["state"], gone["decide_note"]) == ("dismissed", "it is meant to")
    assert client.post(f"{URL}{one['id']}/dismiss/", {}).json()["code"] == "version_conflict"


def test_nobody_decides_for_ever(client: APIClient, finished) -> None:
    finished()
    recommendations_make()
    Recommendation.objects.update(expires_at=datetime(2027, 1, 1, tzinfo=UTC) - timedelta(days=400))
    (one,) = open_ones(client)
    assert client.post(f"{URL}{one['id']}/apply/", {}).json()["code"] == "version_conflict"
    assert recommendations_expire(now=timezone.now()) == 1
    assert client.get(f"{URL}{one['id']}/").json()["state"] == "expired"


def made_anew() -> None:
    """Another group of the same name, with what settings the first one has."""
    now = settings()
    group_remove(acting=ADMIN, name="chat")
    group_create(acting=ADMIN, name="chat", settings=now)


def test_a_group_of_the_same_name_inherits_no_advice(client: APIClient, finished) -> None:
    finished()
    recommendations_make()
    (one,) = open_ones(client)
    late = finished()
    made_anew()
    (shown,) = open_ones(client)
    assert (shown["stale"], shown["applicable"]) == (True, False)
    answer = client.post(f"{URL}{one['id']}/apply/", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "version_conflict")
    assert "earlier group" in answer.json()["message"]
    # Nor does a run that was asked for of the first one say anything of it.
    assert recommendations_make() == 0
    assert "anew" in RunAdvice.objects.get(run=late).reason
    assert recommendations_expire(now=timezone.now()) == 1
    assert client.get(f"{URL}{one['id']}/").json()["state"] == "expired"
    finished()
    assert recommendations_make() == 1
    assert open_ones(client)[0]["applicable"] is True


def test_what_was_set_of_a_group_is_not_taken_back_from_another(client: APIClient, finished) -> None:
    finished()
    recommendations_make()
    (one,) = open_ones(client)
    assert client.post(f"{URL}{one['id']}/apply/", {}).status_code == 200
    made_anew()
    before = settings()
    assert client.post(f"{URL}{one['id']}/undo/").json()["code"] == "version_conflict"
    assert settings() == before
    group_remove(acting=ADMIN, name="chat")
    assert client.post(f"{URL}{one['id']}/undo/").status_code == 404


def test_advice_ends_with_its_group(client: APIClient, finished) -> None:
    finished()
    recommendations_make()
    (one,) = open_ones(client)
    group_remove(acting=ADMIN, name="chat")
    shown = client.get(f"{URL}{one['id']}/").json()
    assert (shown["stale"], shown["applicable"], shown["group_version"]) == (True, False, None)
    assert client.post(f"{URL}{one['id']}/apply/", {}).status_code == 404
    assert recommendations_expire(now=timezone.now()) == 1
    assert client.get(f"{URL}{one['id']}/").json()["state"] == "expired"


def test_roles_and_scopes(api: Api, finished) -> None:
    finished()
    recommendations_make()
    one = Recommendation.objects.get()
    viewer = api(Role.VIEWER)
    assert viewer.get(URL).json()["count"] == 1
    for what in ("apply", "undo", "dismiss"):
        assert viewer.post(f"{URL}{one.pk}/{what}/", {}).status_code == 403
    assert api(groups=["other"]).get(URL).json()["count"] == 0
    assert api(groups=["other"]).post(f"{URL}{one.pk}/apply/", {}).status_code == 404
    assert api(groups=["chat"]).post(f"{URL}{one.pk}/apply/", {}).status_code == 200


def test_what_follows_from_the_traffic_of_others_says_so_and_is_applied_on_purpose_alone(
    client: APIClient, finished
) -> None:
    make_instance("m", group="chat")
    run = finished()
    run.trace_name, run.trace_facts = "mooncake", {"instances": [{"instance_id": "default", "group": ""}]}
    run.save()
    recommendations_make()
    (one,) = open_ones(client)
    assert one["foreign_trace"] is True
    assert "trace 'mooncake', which has none of the group's instances" in one["sentence"]
    assert client.post(f"{URL}{one['id']}/apply/", {"dry_run": True}).status_code == 200
    answer = client.post(f"{URL}{one['id']}/apply/", {})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert answer.json()["field"] == "accept_foreign_trace" and "mooncake" in answer.json()["message"]
    assert settings().quota.capacity_bytes == 25 * GIB
    assert client.post(f"{URL}{one['id']}/apply/", {"accept_foreign_trace": True}).json()["applied"]
    assert settings().quota.capacity_bytes != 25 * GIB


def test_a_trace_with_an_instance_of_the_group_is_its_own(client: APIClient, finished) -> None:
    make_instance("m", group="chat")
    run = finished()
    run.trace_name, run.trace_facts = "monday", {"instances": [{"instance_id": "m", "group": ""}]}
    run.save()
    recommendations_make()
    (one,) = open_ones(client)
    assert one["foreign_trace"] is False and one["sentence"].endswith("It follows from trace 'monday'.")
    assert client.post(f"{URL}{one['id']}/apply/", {}).status_code == 200


def test_nothing_is_said_of_a_group_out_of_the_traffic_of_others(client: APIClient, finished) -> None:
    mixed, alone = finished(), finished()
    for run, groups in ((mixed, ("chat", "code")), (alone, ("", "chat"))):
        run.trace_facts = {"instances": [{"instance_id": f"of-{name}", "group": name} for name in groups]}
        run.save()
    recommendations_make()
    assert {row["run"] for row in open_ones(client)} == {alone.pk}
    assert "code" in RunAdvice.objects.get(run=mixed).reason
