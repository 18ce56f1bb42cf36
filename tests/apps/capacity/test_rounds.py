"""From a request, or a mark that was reached, over the workers to the record."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.db import OperationalError

from apps.cache_index.tasks import run_duties
from apps.capacity import conditions
from apps.capacity.models import ReclaimRun
from apps.capacity.services import reports_ingest, rounds
from apps.capacity.tasks import run_reclaim
from apps.common.actor import Role
from apps.common.queue import RECLAIM_TASK
from apps.live.overview import Overview
from kvcm_platform.core.registry import InstanceEntry, Quota
from kvcm_platform.duties.reclaim import ReclaimSummary
from kvcm_platform.duties.reclaim_choice import Choice, Target
from kvcm_platform.index import codec, keyspace, stats
from tests.apps.capacity.conftest import BLOCK, Held, Write
from tests.apps.conftest import Api
from tests.factories.objects import make_group, make_instance
from tests.support.eventually import eventually

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/capacity/reclaim-runs/"
KEYS = range(1, 101)


def freed(run_id: str) -> bool:
    """Deletions come due half a second after the last block was chosen, and reclaim sees them done."""
    run_duties()
    run_reclaim()
    return ReclaimRun.objects.get(run_id=run_id).is_final


def change(api: Api, **changes: Any) -> None:
    answer = api(Role.OPERATOR).patch("/api/v1/instance-groups/chat/", changes)
    assert answer.status_code == 200, answer.json()


def test_five_percent_asked_are_five_percent_freed(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry, write: Write, held: Held
) -> None:
    for first in range(1, 101, 10):
        write(range(first, first + 10))
    client = api(Role.OPERATOR)
    run_id = client.post(URL, {"instance_group": "chat", "percent": 5}).json()["id"]
    run_reclaim()
    run = client.get(f"{URL}{run_id}/").json()
    assert (run["state"], run["stop"], run["trigger"]) == ("deleting", "enough", "request")
    assert (run["chosen_blocks"], run["chosen_bytes"]) == (5, 5 * BLOCK)
    assert run["by_instance"] == [{"instance_id": "model-a", "blocks": 5, "bytes": 5 * BLOCK}]
    assert run["by_storage"] == [{"storage": "nfs_a", "blocks": 5, "bytes": 5 * BLOCK}]
    assert (run["used_before_bytes"], run["used_after_bytes"]) == (100 * BLOCK, 95 * BLOCK)
    assert held(KEYS) == [key for key in KEYS if not 6 <= key <= 10], "the tail of the oldest"
    eventually(lambda: freed(run_id))
    run = client.get(f"{URL}{run_id}/").json()
    assert (run["state"], run["freed_blocks"], run["freed_bytes"]) == ("done", 5, 5 * BLOCK)
    usage = stats.group_usages(index, [model.group_number])[model.group_number]
    assert (usage.used_bytes, usage.pending_bytes) == (95 * BLOCK, 0)
    why = api(Role.VIEWER).get("/api/v1/capacity/evictions/", {"instance_id": "model-a", "key": "10"}).json()
    assert [(one["cause"], one["run_id"], one["trigger"]) for one in why["results"]] == [
        ("reclaim", run_id, "request")
    ]


def test_a_lowered_quota(api: Api, sent: list[str], model: InstanceEntry, write: Write, held: Held) -> None:
    write(KEYS)
    change(api, quota={"capacity_bytes": 50 * BLOCK})
    run_reclaim()
    run = ReclaimRun.objects.get()
    assert (run.trigger, run.group_name, run.capacity_bytes) == ("quota", "chat", 50 * BLOCK)
    # 0.8 of the quota, less a twentieth of it.
    assert run.chosen_bytes == 100 * BLOCK - int(0.75 * 50) * BLOCK
    assert (run.scopes[0]["scope"], run.scopes[0]["used"]) == ("group", 100 * BLOCK)
    eventually(lambda: freed(run.run_id))
    assert held(KEYS) == list(range(1, 38))


def test_a_request_of_which_nothing_may_go_ends(
    api: Api, sent: list[str], model: InstanceEntry, write: Write, held: Held
) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    for body in ({"idle_seconds": 3600}, {}, {"storage": "nfs_a", "bytes": 1, "idle_seconds": 3600}):
        run_id = client.post(URL, {"instance_group": "chat", **body}).json()["id"]
        for _ in range(2):
            run_reclaim()
        run = client.get(f"{URL}{run_id}/").json()
        assert (run["state"], run["chosen_blocks"]) == ("done", 0), body
    assert held(KEYS) == list(KEYS)


def test_a_cancelled_request_takes_nothing(
    api: Api, sent: list[str], index: redis.Redis, write: Write, held: Held
) -> None:
    write(KEYS)
    client = api(Role.OPERATOR)
    run_id = client.post(URL, {"instance_group": "chat", "percent": 50}).json()["id"]
    client.post(f"{URL}{run_id}/cancel/")
    run_reclaim()
    assert client.get(f"{URL}{run_id}/").json()["state"] == "cancelled"
    assert held(KEYS) == list(KEYS)
    run_reclaim()
    assert not index.exists(keyspace.RECLAIM_CANCELS)


def test_reclaim_goes_on_without_the_database(
    api: Api, sent: list[str], write: Write, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(KEYS)
    change(api, quota={"capacity_bytes": 50 * BLOCK})

    def away() -> int:
        raise OperationalError("the database is away")

    monkeypatch.setattr(rounds, "reports_ingest", away)
    run_reclaim()
    assert len(held(KEYS)) == 37
    assert not ReclaimRun.objects.exists()
    assert reports_ingest() == 1
    assert ReclaimRun.objects.get().chosen_blocks == 63


def test_a_round_that_is_not_through_is_followed_by_another(
    sent: list[str], index: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def short(*_: object) -> ReclaimSummary:
        return ReclaimSummary(is_unfinished=True)

    monkeypatch.setattr(rounds, "_round", short)
    run_reclaim()
    assert sent == [RECLAIM_TASK]
    run_reclaim()
    assert sent == [RECLAIM_TASK], "one is on its way already"


def test_a_poisoned_record_turns_health_red_and_the_rest_goes_on(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry, write: Write, held: Held
) -> None:
    make_group("other", quota=Quota(capacity_bytes=10_000_000))
    make_instance("model-o", "other")
    for first in range(1, 101, 10):
        write(range(first, first + 10))
    write(KEYS, "model-o")
    blocks = keyspace.blocks(keyspace.instance(model.number, 0))
    record = index.hget(blocks, codec.pack_keys([5]))
    index.hset(blocks, codec.pack_keys([5]), b"\xffpoison")
    for group in ("chat", "other"):
        url = f"/api/v1/instance-groups/{group}/"
        api(Role.OPERATOR).patch(url, {"quota": {"capacity_bytes": 50 * BLOCK}}, format="json")
    run_reclaim()
    reasons = Overview(index).picture()["verdict"]["reasons"]
    (told,) = [reason for reason in reasons if "cannot be reclaimed" in reason]
    assert told.startswith(
        "Blocks of group chat cannot be reclaimed: blocks of instance model-a cannot be read"
    )
    (finding,) = conditions.reclaim_failing({})
    assert (finding.subject, finding.message) == ("chat", told)
    assert len(held(KEYS, "model-o")) == 37
    chosen = {run.group_name: run.chosen_blocks for run in ReclaimRun.objects.all()}
    assert chosen["other"] == 63 and chosen["chat"] >= 53, "all but the run that cannot be read"
    # Mended.
    index.hset(blocks, codec.pack_keys([5]), record)

    def is_well() -> bool:
        run_reclaim()
        return not list(conditions.reclaim_failing({}))

    eventually(is_well)


def test_a_policy_that_throws_turns_health_red_and_other_groups_go_on(
    api: Api,
    sent: list[str],
    index: redis.Redis,
    write: Write,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_group("other", quota=Quota(capacity_bytes=10_000_000))
    make_instance("model-o", "other")
    write(KEYS)
    write(KEYS, "model-o")
    for group in ("chat", "other"):
        url = f"/api/v1/instance-groups/{group}/"
        api(Role.OPERATOR).patch(url, {"quota": {"capacity_bytes": 50 * BLOCK}}, format="json")
    plan = Choice.plan

    async def throws(self: Choice, target: Target, *args: Any) -> Any:
        if target.name == ("group", "chat"):
            raise ZeroDivisionError("no share is left")
        return await plan(self, target, *args)

    monkeypatch.setattr(Choice, "plan", throws)
    run_reclaim()
    run_reclaim()
    judged = Overview(index).picture()["verdict"]
    sentence = "Blocks of group chat cannot be reclaimed: ZeroDivisionError: no share is left."
    assert sentence in judged["reasons"] and judged["state"] != "ok"
    assert (held(KEYS), len(held(KEYS, "model-o"))) == (list(KEYS), 37)
    monkeypatch.undo()
    monkeypatch.setattr("kvcm_platform.celery.app.send_task", lambda *_, **__: None)
    run_reclaim()
    assert len(held(KEYS)) == 37
    assert list(conditions.reclaim_failing({})) == []
