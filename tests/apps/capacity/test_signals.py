"""What the live topic, alerts, figures and the verdict say about reclaim."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest
import redis
from django.utils import timezone

from apps.alerts.models import AlertRule
from apps.alerts.services.evaluate import alerts_evaluate
from apps.capacity import conditions
from apps.capacity.live import narrowed, reclaim_picture
from apps.capacity.models import ReclaimRun
from apps.capacity.services import reports_ingest
from apps.common.actor import Actor, Role
from apps.health.metrics import exposition
from apps.live.overview import Overview
from apps.live.topics import topics
from kvcm_platform.core.reclaim.runs import RunState, Stop
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import keyspace
from tests.apps.capacity.conftest import T0, Report

pytestmark = pytest.mark.django_db(transaction=True)
OVER = {"state": RunState.DONE, "stop": Stop.ENOUGH.value, "ended_ms": T0 + 2500}
CHOSEN = {"chosen_blocks": 40, "chosen_bytes": 4000}


@pytest.fixture
def trouble(index: redis.Redis) -> None:
    entry = {"since": round((time.time() - 60) * 1000), "reason": "block record 17 cannot be read"}
    index.hset(keyspace.RECLAIM_TROUBLES, "chat", json.dumps(entry))


def test_the_live_topic(report: Report, trouble: None) -> None:
    report("0000000000000001", **CHOSEN)
    report("0000000000000002", group="search", **CHOSEN, **OVER)
    reports_ingest()
    picture = reclaim_picture()
    assert json.loads(json.dumps(picture)) == picture
    (opened,), (ended,), (failing,) = picture["open"], picture["ended"], picture["troubles"]
    assert (opened["id"], opened["state"], opened["chosen_bytes"]) == ("0000000000000001", "choosing", 4000)
    assert (ended["instance_group"], ended["duration_seconds"]) == ("search", 2.5)
    assert (failing["instance_group"], failing["reason"]) == ("chat", "block record 17 cannot be read")
    everybody = Actor(name="v", role=Role.VIEWER)
    assert narrowed(picture, everybody) is picture
    mine = narrowed(picture, Actor(name="v", role=Role.VIEWER, groups=frozenset({"search"})))
    assert (mine["open"], len(mine["ended"]), mine["troubles"]) == ([], 1, [])
    assert topics()["reclaim"].role is Role.VIEWER


def test_reclaim_that_fails_is_a_critical_alert(index: redis.Redis, trouble: None) -> None:
    (finding,) = conditions.reclaim_failing({})
    assert finding.message == "Blocks of group chat cannot be reclaimed: block record 17 cannot be read."
    assert (finding.subject, finding.groups) == ("chat", ("chat",))
    assert 60 <= finding.value < 120
    by_name = {one.name: one for one in conditions.CONDITIONS}
    assert by_name["reclaim_failing"].severity == "critical"
    index.delete(keyspace.RECLAIM_TROUBLES)
    assert list(conditions.reclaim_failing({})) == []


def test_blocks_that_are_chosen_and_stay(report: Report) -> None:
    late = {"late_seconds": 60.0}
    deleting = {"state": RunState.DELETING, "marked_ms": T0, **CHOSEN}
    report(**deleting, freed_blocks=10, freed_bytes=1000, failed_blocks=5, failed_bytes=500)
    reports_ingest()
    ReclaimRun.objects.update(marked_at=timezone.now() - timedelta(seconds=30))
    assert list(conditions.run_deletions_behind(late)) == []
    ReclaimRun.objects.update(marked_at=timezone.now() - timedelta(seconds=90))
    (finding,) = conditions.run_deletions_behind(late)
    assert (finding.subject, finding.value) == ("chat", 3000.0)
    assert finding.message == (
        "Run 00000000000000a1 of group chat chose 30 blocks that are not deleted yet: 3000 bytes."
        " The storage refuses 5 of them."
    )
    report(**CHOSEN, **OVER, freed_blocks=40, freed_bytes=4000)
    reports_ingest()
    assert list(conditions.run_deletions_behind(late)) == []


def test_a_run_that_failed(report: Report) -> None:
    report(state=RunState.FAILED, stop="errors", detail="the policy lfu throws", ended_ms=T0)
    reports_ingest()
    recent = {"recent_seconds": 600.0}
    assert list(conditions.reclaim_runs_failed(recent)) == []
    ReclaimRun.objects.update(ended_at=timezone.now())
    (finding,) = conditions.reclaim_runs_failed(recent)
    assert finding.message == "Reclaim run 00000000000000a1 of group chat failed: the policy lfu throws."


def test_a_group_that_fills_up_faster_than_it_is_emptied(index: redis.Redis, model: InstanceEntry) -> None:
    """Of 10,000,000 bytes with a high mark of 0.8: the middle is 9,000,000."""
    usage = keyspace.group(model.group_number)
    index.hset(usage, mapping={"u": 8_800_000, "r": 200_000, "p": 0})
    assert list(conditions.reclaim_behind({})) == []
    index.hset(usage, mapping={"u": 9_000_000, "r": 200_000})
    (finding,) = conditions.reclaim_behind({})
    assert (finding.subject, finding.value, finding.groups) == ("chat", 0.92, ("chat",))
    assert finding.message == (
        "Group chat uses 92% of its quota, and reclaim, which begins at 8000000 of 10000000 bytes, does not"
        " keep up."
    )
    index.hset(usage, "p", 200_000)
    assert list(conditions.reclaim_behind({})) == [], "what waits for its deletion is on its way out"


def test_rules_begin_with_them(index: redis.Redis) -> None:
    alerts_evaluate(clock=timezone.now)
    names = {rule.condition for rule in AlertRule.objects.all()}
    assert {one.name for one in conditions.CONDITIONS} <= names


def test_figures(report: Report, trouble: None) -> None:
    report("0000000000000001", **CHOSEN, freed_blocks=40, freed_bytes=4000, **OVER)
    report("0000000000000002", **CHOSEN, freed_blocks=10, freed_bytes=1000, failed_bytes=500, failed_blocks=5)
    reports_ingest()
    lines = set(exposition().decode().splitlines())
    labels = '{instance_group="chat",trigger="watermark"}'
    assert {
        f"kvcm_reclaim_runs_total{labels} 1.0",
        f"kvcm_reclaim_evicted_blocks_total{labels} 80.0",
        f"kvcm_reclaim_evicted_bytes_total{labels} 8000.0",
        f"kvcm_reclaim_freed_bytes_total{labels} 5000.0",
        f"kvcm_reclaim_run_seconds_sum{labels} 2.5",
        f"kvcm_reclaim_run_seconds_count{labels} 1.0",
        'kvcm_reclaim_runs_open{instance_group="chat"} 1.0',
        'kvcm_reclaim_waiting_blocks{instance_group="chat"} 25.0',
        'kvcm_reclaim_waiting_bytes{instance_group="chat"} 2500.0',
        'kvcm_reclaim_failing{instance_group="chat"} 1.0',
    } <= lines


def test_the_verdict_is_not_well(index: redis.Redis, model: InstanceEntry, trouble: None) -> None:
    judged = Overview(index).picture()["verdict"]
    assert judged["state"] != "ok"
    assert "Blocks of group chat cannot be reclaimed: block record 17 cannot be read." in judged["reasons"]
    index.hset(keyspace.RECLAIM_TROUBLES, "chat", "{")
    (told,) = [one for one in Overview(index).picture()["verdict"]["reasons"] if "cannot be reclaimed" in one]
    assert told.endswith("in a way that cannot be read.")
    index.hdel(keyspace.RECLAIM_TROUBLES, "chat")
    reasons = Overview(index).picture()["verdict"]["reasons"]
    assert not any("cannot be reclaimed" in reason for reason in reasons)
