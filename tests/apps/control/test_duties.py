"""What control does by itself: reconciliation, wake-ups, work that is due, who was seen."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.accounts.models import ApiToken
from apps.audit.models import Event
from apps.capacity.models import ReclaimRun
from apps.common.actor import Role
from apps.common.models import PendingPublication, RegistryState
from apps.common.queue import COPIES_TASK, RECLAIM_TASK
from apps.control.services.reconcile import limits_publish, reconcile
from apps.instances.models import Instance
from apps.instances.selectors import group_entries
from apps.instances.services import instance_remove
from apps.storages.services import storage_remove
from apps.usage.models import Series
from kvcm_platform.core.reclaim.runs import RunReport, RunState, Trigger
from kvcm_platform.core.registry import MigrationPolicy, Quota
from kvcm_platform.index import keyspace, leaving
from kvcm_platform.index import registry as index_registry
from tests.apps.control.conftest import Control
from tests.factories.actors import ADMIN, make_token
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.eventually import eventually
from tests.support.valkey import ValkeyServer

TASK = "apps.cache_index.tasks.run_duties"
NOWHERE = "unix:///nowhere/at/all.sock"


def grow_old() -> None:
    """Pending publications look as if their senders had died."""
    PendingPublication.objects.update(created_at=timezone.now() - timedelta(seconds=10))


@pytest.mark.django_db(transaction=True)
def test_nothing_to_do(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    before = index.hgetall(keyspace.REGISTRY)
    assert not reconcile(client=index)
    assert index.hgetall(keyspace.REGISTRY) == before


@pytest.mark.django_db(transaction=True)
def test_a_registry_that_redis_dropped_by_itself(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    before = index_registry.read(index)
    index.delete(keyspace.REGISTRY)
    assert reconcile(client=index)
    after = index_registry.read(index)
    assert (after.storages, after.groups) == (before.storages, before.groups)
    assert not reconcile(client=index)


@pytest.mark.django_db(transaction=True)
def test_change_made_while_redis_was_away(index: redis.Redis, settings, tmp_path: Path) -> None:
    url, settings.KVCM_REDIS_URL = settings.KVCM_REDIS_URL, NOWHERE
    make_storage(tmp_path)
    assert index_registry.read(index).storages == {}
    settings.KVCM_REDIS_URL = url
    assert not reconcile(client=index), "its sender may still be at it"
    grow_old()
    assert reconcile(client=index)
    assert list(index_registry.read(index).storages) == ["nfs_a"]
    assert index_registry.read_version(index) == RegistryState.objects.get().version
    assert not PendingPublication.objects.exists()
    assert Event.objects.filter(kind="registry.republished").count() == 1


@pytest.mark.django_db(transaction=True)
def test_gap_hidden_by_a_later_publication(index: redis.Redis, settings, tmp_path: Path) -> None:
    url, settings.KVCM_REDIS_URL = settings.KVCM_REDIS_URL, NOWHERE
    make_storage(tmp_path, "lost")
    settings.KVCM_REDIS_URL = url
    make_storage(tmp_path, "later")
    assert index_registry.read_version(index) == RegistryState.objects.get().version
    grow_old()
    reconcile(client=index)
    assert set(index_registry.read(index).storages) == {"lost", "later"}


@pytest.mark.django_db(transaction=True)
def test_removal_made_while_redis_was_away(index: redis.Redis, tmp_path: Path, monkeypatch) -> None:
    make_storage(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(index_registry, "publish", _unreachable)
        storage_remove(acting=ADMIN, name="nfs_a")
    assert "nfs_a" in index_registry.read(index).storages
    grow_old()
    reconcile(client=index)
    assert index_registry.read(index).storages == {}


def _unreachable(*_: object, **__: object) -> None:
    raise redis.ConnectionError("away")


@pytest.mark.django_db(transaction=True)
def test_redis_lost_everything(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    make_instance()
    index.flushall()
    assert reconcile(client=index)
    found = index_registry.read(index)
    assert (list(found.storages), list(found.groups), list(found.instances)) == (
        ["nfs_a"],
        ["chat"],
        ["model-a"],
    )


@pytest.mark.django_db(transaction=True)
def test_interrupted_publication_is_begun_again(index: redis.Redis, tmp_path: Path, monkeypatch) -> None:
    """The new version shows only once everything is there."""
    for number in range(3):
        make_storage(tmp_path, f"s{number}")
    index.flushall()
    publish, calls = index_registry.publish, []

    def dying(client: redis.Redis, **arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise redis.ConnectionError("died")
        publish(client, **arguments)

    monkeypatch.setattr("apps.control.services.reconcile._AT_ONCE", 1)
    with monkeypatch.context() as broken:
        broken.setattr(index_registry, "publish", dying)
        with pytest.raises(redis.ConnectionError):
            reconcile(client=index)
    assert len(index_registry.read(index).storages) == 1
    assert reconcile(client=index)
    assert len(index_registry.read(index).storages) == 3


@pytest.mark.django_db(transaction=True)
def test_database_restored_from_before(index: redis.Redis, tmp_path: Path) -> None:
    """The index is ahead: what the database says wins, and its version passes the index's."""
    make_storage(tmp_path)
    index_registry.publish(index, version=90, removed=[("storage", "nfs_a")])
    assert reconcile(client=index)
    assert list(index_registry.read(index).storages) == ["nfs_a"]
    assert RegistryState.objects.get().version == index_registry.read_version(index) > 90


@pytest.mark.django_db(transaction=True)
def test_removed_instance_is_handed_over_later(index: redis.Redis, settings, sent: list[str]) -> None:
    make_group()
    entry = make_instance()
    url, settings.KVCM_REDIS_URL = settings.KVCM_REDIS_URL, NOWHERE
    instance_remove(acting=ADMIN, instance_id="model-a")
    settings.KVCM_REDIS_URL = url
    assert not index.exists(keyspace.LEAVING)
    grow_old()
    reconcile(client=index)
    assert leaving.decode(index.hgetall(keyspace.LEAVING)) == [entry]
    index.delete(keyspace.LEAVING)
    reconcile(client=index)
    assert not index.exists(keyspace.LEAVING), "handed over once"


@pytest.mark.django_db(transaction=True)
def test_tokens_are_compared_too(index: redis.Redis) -> None:
    make_token(Role.ENGINE)
    make_token(Role.VIEWER)
    digests = {row.digest.encode() for row in ApiToken.objects.filter(user__role="engine")}
    assert set(index.hkeys(keyspace.TOKENS)) == digests
    index.delete(keyspace.TOKENS)
    index.hset(keyspace.TOKENS, "of-nobody", "{}")
    reconcile(client=index)
    assert set(index.hkeys(keyspace.TOKENS)) == digests


def test_running_process_publishes_again(
    control: Control, index: redis.Redis, empty_valkey: ValkeyServer
) -> None:
    make_group()
    index.flushall()
    eventually(lambda: "chat" in index_registry.read(index).groups)
    assert Event.objects.filter(kind="control.leads").count() == 1


def test_wake_up_becomes_a_task(control: Control, index: redis.Redis, sent: list[str]) -> None:
    eventually(lambda: control.process.leader.is_leader)
    index.xadd(keyspace.WAKE, {"reason": "removed", "group": "1"})
    eventually(lambda: TASK in sent)


def test_work_that_meets_what_it_does_not_know_ends_no_other(
    control: Control, index: redis.Redis, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def stumble(**_: object) -> None:
        asked.append("reports")
        raise TypeError("a report of another form")

    monkeypatch.setattr("apps.control.duties.reports_ingest", stumble)
    eventually(lambda: len(asked) > 1)
    index.xadd(keyspace.WAKE, {"reason": "refused"})
    eventually(lambda: RECLAIM_TASK in sent)


def test_a_group_that_needs_room_and_may_move_blocks_wakes_the_migrations(
    control: Control, index: redis.Redis, sent: list[str]
) -> None:
    make_group()
    make_group("tiers", migration=MigrationPolicy("pool_a", "nfs_a"))
    eventually(lambda: control.process.leader.is_leader)

    index.xadd(keyspace.WAKE, {"reason": "refused", "group": "chat"})
    eventually(lambda: TASK in sent)
    assert COPIES_TASK not in sent

    def is_woken() -> bool:
        # The process may not have read the groups yet.
        index.xadd(keyspace.WAKE, {"reason": "refused", "group": "tiers"})
        return COPIES_TASK in sent

    eventually(is_woken)


@pytest.mark.parametrize("reason", ["refused", "mark", "limits", "storage"])
def test_whoever_needs_room_wakes_reclaim(
    control: Control, index: redis.Redis, sent: list[str], reason: str
) -> None:
    eventually(lambda: control.process.leader.is_leader)
    for _ in range(3):
        index.xadd(keyspace.WAKE, {"reason": reason, "number": "1"})
    eventually(lambda: RECLAIM_TASK in sent)
    assert sent.count(RECLAIM_TASK) == 1, "one is on its way already"
    index.delete(keyspace.RECLAIM_QUEUED)  # it has begun
    index.xadd(keyspace.WAKE, {"reason": reason, "number": "1"})
    eventually(lambda: sent.count(RECLAIM_TASK) == 2)


def test_other_wakes_do_not_reclaim(control: Control, index: redis.Redis, sent: list[str]) -> None:
    eventually(lambda: control.process.leader.is_leader)
    index.xadd(keyspace.WAKE, {"reason": "removed", "group": "1"})
    eventually(lambda: TASK in sent)
    assert RECLAIM_TASK not in sent


@pytest.mark.django_db(transaction=True)
def test_limits_are_set_again_as_a_new_version_understands_them(index: redis.Redis) -> None:
    make_group(quota=Quota(1000))
    limits = keyspace.group_limits(keyspace.group(group_entries()[0].number))
    known = index.hgetall(limits)
    assert known[b"mark"] == b"800"
    index.hdel(limits, "mark", "mark:keys")
    limits_publish(client=index)
    assert {name: value for name, value in index.hgetall(limits).items() if name != b"version"} == {
        name: value for name, value in known.items() if name != b"version"
    }


def test_due_work_becomes_one_task(control: Control, index: redis.Redis, sent: list[str]) -> None:
    make_group()
    entry = make_instance()
    eventually(lambda: control.process.leader.is_leader)
    sent.clear()
    index.zadd(keyspace.pending_due(keyspace.instance(entry.number, 0)), {"p": 1})
    eventually(lambda: TASK in sent)
    time.sleep(0.7)
    assert sent.count(TASK) == 1, "one is on its way already"


def test_active_instances_are_seen(control: Control, index: redis.Redis) -> None:
    make_group()
    make_instance()
    long_ago = timezone.now() - timedelta(days=1)
    Instance.objects.update(last_seen_at=long_ago)
    duties = control.process.duties
    eventually(lambda: control.process.leader.is_leader)
    duties.look_for_work()
    duties.note_seen()
    assert Instance.objects.get().last_seen_at == long_ago
    index.hincrby(keyspace.COUNTERS, "model-a|requests", 3)
    duties.note_seen()
    assert timezone.now() - Instance.objects.get().last_seen_at < timedelta(minutes=1)


def test_reports_of_reclaimers_go_on_record(control: Control, index: redis.Redis) -> None:
    report = RunReport("00000000000000a1", "chat", Trigger.QUOTA, RunState.CHOOSING, "lru", "group_lru")
    index.xadd(keyspace.RECLAIM_REPORTS, {"d": json.dumps(report.to_dict())})
    eventually(lambda: ReclaimRun.objects.filter(run_id=report.id, state="choosing").exists())


def test_the_leader_keeps_the_usage_history(control: Control) -> None:
    make_group()
    eventually(lambda: Series.objects.filter(kind="group", name="chat").exists(), seconds=20)
