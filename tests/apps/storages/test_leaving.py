"""Storages on their way out: drained, removed with their blocks first, given up, called back."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection, connections
from django.utils import timezone

from apps.audit.models import AuditEntry, Event
from apps.common import redis_client
from apps.common.models import PendingPublication
from apps.common.redis_client import blocks_client, index_client
from apps.control.services.reconcile import reconcile
from apps.storages.models import Storage, StorageHealthChange, StorageIncident
from apps.storages.services import (
    departures_settle,
    remove,
    storage_abandon,
    storage_remove,
    storage_restore,
    storage_update,
)
from apps.storages.usage import UsageByNumber, usage_by_storage
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import StorageUsage
from tests.apps.storages.looks import check, occupy, published, vacate
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
SOON = timedelta(seconds=10)


def refused(work: Callable[..., Any], **arguments: Any) -> Code:
    with pytest.raises(DomainError) as caught:
        work(acting=ADMIN, **arguments)
    return caught.value.code


def settle() -> list[str]:
    return departures_settle(client=blocks_client(), now=timezone.now() + SOON)


def test_it_leaves_with_its_blocks(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    occupy(index, storage)
    assert refused(storage_remove, name="nfs_a") is Code.IN_USE
    assert published(index).is_writable
    leaving = storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    assert leaving is not None
    assert leaving.is_leaving
    entry = published(index)
    assert (entry.is_leaving, entry.is_served, entry.refusal) == (True, False, "being removed")
    assert refused(storage_update, name="nfs_a", settings={"weight": 1}) is Code.IN_USE
    with pytest.raises(DomainError, match="still being removed"):
        make_storage(tmp_path)
    assert storage_remove(acting=ADMIN, name="nfs_a", is_forced=True) is not None, "once more is no mistake"
    assert settle() == []
    vacate(index)
    assert departures_settle(client=blocks_client(), now=timezone.now()) == [], "a Start may be under way"
    assert settle() == ["nfs_a"]
    assert index_registry.read(index).storages == {}
    assert not Storage.objects.exists()
    assert AuditEntry.objects.filter(action="storage.remove").count() == 1
    assert Event.objects.first().kind == "storage.removed"
    assert make_storage(tmp_path).number > storage.number


def test_it_is_called_back(index: redis.Redis, tmp_path: Path) -> None:
    occupy(index, make_storage(tmp_path))
    assert refused(storage_restore, name="nfs_a") is Code.INVALID_ARGUMENT
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    storage_restore(acting=ADMIN, name="nfs_a")
    assert published(index).is_writable
    assert Storage.objects.get().departing_since is None
    turns = StorageHealthChange.objects.order_by("id").values_list("event", flat=True)
    assert list(turns) == ["available", "leaving", "stays"]
    assert settle() == []


def test_it_is_given_up(index: redis.Redis, tmp_path: Path) -> None:
    occupy(index, make_storage(tmp_path))
    assert refused(storage_abandon, name="nfs_a") is Code.INVALID_ARGUMENT
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    entry = published(index)
    assert not entry.has_lost(entry.number)
    storage_abandon(acting=ADMIN, name="nfs_a")
    storage_abandon(acting=ADMIN, name="nfs_a")
    entry = published(index)
    assert entry.has_lost(entry.number), "its objects need no deletion any more"
    assert refused(storage_restore, name="nfs_a") is Code.IN_USE
    assert AuditEntry.objects.filter(action="storage.abandon").count() == 1


def test_two_removals_at_once_are_one(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one saw the storage before the first one's removal, and comes after its giving up."""
    occupy(index, make_storage(tmp_path))
    original = remove.groups_naming

    def meanwhile(*names: Any, **more: Any) -> Any:
        monkeypatch.setattr(remove, "groups_naming", original)
        storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
        storage_abandon(acting=ADMIN, name="nfs_a")
        return original(*names, **more)

    monkeypatch.setattr(remove, "groups_naming", meanwhile)
    staying = storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    assert staying is not None
    assert Storage.objects.get().is_abandoned, "it does not come back to life"
    assert AuditEntry.objects.filter(action="storage.remove").count() == 1


def test_it_is_given_up_by_itself_where_that_is_wanted(index: redis.Redis, tmp_path: Path) -> None:
    occupy(index, make_storage(tmp_path))
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    wanted = HealthLimits(abandon_seconds=3600)
    hour = timezone.now() + timedelta(hours=1, seconds=1)
    check("nfs_a", False, at=hour, limits=wanted)
    assert not published(index).is_abandoned, "it may still answer"
    check("nfs_a", False, at=hour, limits=HealthLimits())
    assert not published(index).is_abandoned
    check("nfs_a", False, at=hour, limits=wanted)
    assert published(index).is_abandoned


def test_without_the_index_it_leaves_when_that_is_back(
    index: redis.Redis, tmp_path: Path, settings: Any
) -> None:
    make_storage(tmp_path)
    url, settings.KVCM_REDIS_URL = settings.KVCM_REDIS_URL, "redis://127.0.0.1:1"
    assert refused(storage_remove, name="nfs_a") is Code.NOT_READY
    assert storage_remove(acting=ADMIN, name="nfs_a", is_forced=True) is not None
    settings.KVCM_REDIS_URL = url
    assert settle() == [], "nobody knows yet that it leaves"
    PendingPublication.objects.update(created_at=timezone.now() - SOON)
    assert reconcile(client=index_client())
    assert settle() == ["nfs_a"]


def test_an_empty_one_that_was_written_to_leaves_only_when_nothing_came_meanwhile(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = make_storage(tmp_path)
    make_group()
    published_as: list[bool] = []

    def meanwhile(_: float) -> None:
        published_as.append(published(index).is_leaving)
        occupy(index, storage)

    monkeypatch.setattr("apps.storages.services.remove.time.sleep", meanwhile)
    assert storage_remove(acting=ADMIN, name="nfs_a", may_be_named=True) is not None
    assert published_as == [True]


def test_the_end_of_what_was_wrong(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    check("nfs_a", False, "gone")
    check("nfs_a", False, "gone")
    storage_remove(acting=ADMIN, name="nfs_a")
    (incident,) = StorageIncident.objects.all()
    assert (incident.kind, incident.reason) == ("unavailable", "gone")
    assert incident.ended_at is not None


def test_progress_of_a_drain(index: redis.Redis, tmp_path: Path) -> None:
    number = make_storage(tmp_path).number
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True})
    began = timezone.now()

    def seen(seconds: float, used: int) -> Storage:
        usages = {number: StorageUsage(used_bytes=used, blocks=used // 10)}
        check("nfs_a", True, at=began + timedelta(seconds=seconds), usages=usages)
        return Storage.objects.get()

    row = seen(0, 1000)
    assert (row.departing_from_blocks, row.departing_from_bytes) == (100, 1000)
    row = seen(100, 600)
    assert row.departing_mark is not None
    assert row.departing_mark.rate(began.timestamp() + 100, 600) == 4
    assert seen(400, 200).departing_bytes_per_second == 2
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": False})
    row = Storage.objects.get()
    assert (row.departing_since, row.departing_mark) == (None, None)
    turns = StorageHealthChange.objects.order_by("id").values_list("event", flat=True)
    assert list(turns) == ["available", "draining", "drain_ended"]


def test_a_process_may_die_anywhere_in_a_removal(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 before each statement in turn: the storage stays, or it leaves, and nothing in between."""
    monkeypatch.setattr("apps.storages.services.remove.SEEN_SECONDS", 0.0)
    ends = []
    for number in range(1, 60):
        make_storage(tmp_path)
        if _removed_until(number):
            break
        PendingPublication.objects.update(created_at=timezone.now() - SOON)
        reconcile(client=index_client())
        rows = list(Storage.objects.all())
        registered = index_registry.read(index).storages
        assert [row.name for row in rows] == list(registered), f"statement {number}"
        assert all(registered[row.name].is_leaving == row.is_leaving for row in rows)
        ends.append("gone" if not rows else "leaving" if rows[0].is_leaving else "there")
        if ends[-1] == "leaving":
            assert settle() == ["nfs_a"]
        Storage.objects.all().delete()
        shutil.rmtree(tmp_path / "nfs_a")
    else:
        pytest.fail("the removal never ended")
    assert ends == sorted(ends, key=["there", "leaving", "gone"].index)
    assert {"there", "leaving"} <= set(ends)


def _removed_until(number: int) -> bool:
    """Removes nfs_a in a process that dies before its statement `number`; whether it got through."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        try:
            redis_client._client.cache_clear()
            redis_client._blocks_client.cache_clear()
            seen = 0

            def count(execute: Callable[..., Any], *args: Any) -> Any:
                nonlocal seen
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return execute(*args)

            with connection.execute_wrapper(count):
                storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)


def test_the_end_of_a_drain_is_told_once(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    make_storage(tmp_path, "nfs_b")
    occupy(index, storage)
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True})
    assert settle() == []
    vacate(index)
    assert departures_settle(client=blocks_client(), now=timezone.now()) == [], "a Start may be under way"
    assert settle() == ["nfs_a"]
    assert settle() == [], "it was told"
    event = Event.objects.first()
    assert (event.kind, event.severity, event.subject) == ("storage.drained", "info", "nfs_a")
    assert event.message == "Storage nfs_a holds nothing more: its drain is through."
    assert [group.name for group in event.groups.all()] == ["chat"]
    assert Storage.objects.get(name="nfs_a").drained_at is not None
    # What is written to it between two drains makes the second one a story of its own.
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": False})
    assert Storage.objects.get(name="nfs_a").drained_at is None
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True})
    assert settle() == ["nfs_a"]
    assert Event.objects.filter(kind="storage.drained").count() == 2


def test_a_drain_that_began_anew_meanwhile_is_not_at_its_end(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_storage(tmp_path)
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True})

    def meanwhile(client: redis.Redis) -> UsageByNumber:
        usages = usage_by_storage(client)
        for is_draining in (False, True):
            storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": is_draining})
        return usages

    with monkeypatch.context() as patch:
        patch.setattr("apps.storages.services.departure.usage_by_storage", meanwhile)
        assert settle() == []
    assert settle() == ["nfs_a"]
