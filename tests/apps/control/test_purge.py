"""What removed objects leave in the index goes after an hour: tombstones, counters, keys of groups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.common.models import RegistryRemoval
from apps.control.services.purge import purge
from apps.control.services.reconcile import reconcile
from apps.instances.services import group_remove, instance_remove
from apps.storages.services import storage_remove
from kvcm_platform.core.registry import MetaIndexerSettings
from kvcm_platform.index import blocking, keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.facts import FactsBuffer
from kvcm_platform.index.placed_client import PlacedClient
from tests.apps.control.conftest import Control
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.eventually import eventually
from tests.support.valkey import valkey_server

pytestmark = pytest.mark.django_db(transaction=True)
LATER = timedelta(hours=1, seconds=1)
Purge = Callable[[], int]


@pytest.fixture
def purge_later(index: redis.Redis) -> Purge:
    """One pass a little more than an hour from now, after the data of removed instances is gone."""

    def run() -> int:
        index.delete(keyspace.LEAVING)
        return purge(client=index, now=timezone.now() + LATER)

    return run


def count(index: redis.Redis, instance_id: str, requests: int) -> None:
    buffer = FactsBuffer("here:1")
    buffer.add(instance_id, requests=requests)
    for command in buffer.take():
        index.execute_command(*command)


def test_nothing_is_left_of_what_was_removed(index: redis.Redis, purge_later: Purge) -> None:
    number = make_group().entry.number
    make_instance()
    count(index, "model-a", 5)
    instance_remove(acting=ADMIN, instance_id="model-a")
    group_remove(acting=ADMIN, name="chat")
    base = keyspace.group(number)
    index.hset(base, "u", 0)
    index.hset(keyspace.group_permits(base), "calls", 1)
    index.zadd(keyspace.group_sessions(base), {"sid": 1})
    index.hset(keyspace.GROUP_COUNTERS, mapping={"chat|allowed_calls": 1, "chat2|allowed_calls": 1})
    tombstones = index.hgetall(keyspace.REGISTRY)
    assert set(tombstones) == {b"group:chat", b"instance:model-a"}
    assert purge(client=index, now=timezone.now() + timedelta(minutes=59)) == 0
    assert index.hgetall(keyspace.REGISTRY) == tombstones
    assert purge_later() == 2
    assert index.keys("{kvcm}:registry") == index.keys("{g:*") == []
    assert list(index.hgetall(keyspace.GROUP_COUNTERS)) == [b"chat2|allowed_calls"]
    assert not RegistryRemoval.objects.exists()


def test_totals_outlive_the_counters_of_an_instance(index: redis.Redis, purge_later: Purge) -> None:
    make_group()
    for name in ("model-a", "model-b"):
        make_instance(name)
        count(index, name, 5)
        instance_remove(acting=ADMIN, instance_id=name)
        purge_later()
    assert index.hgetall(keyspace.COUNTERS) == {b"|requests": b"10"}


def test_nothing_is_left_of_storages_and_their_segments(
    index: redis.Redis, purge_later: Purge, tmp_path: Path
) -> None:
    storage = make_storage(tmp_path)
    at = timezone.now()
    segment = storage.segments.create(
        number=7, node_id="a", segment_id="x", address="h:1", size_bytes=1, found_at=at, seen_at=at
    )
    for number in (storage.number, segment.number, 8):
        base = keyspace.storage(number)
        index.hset(base, "p:s:64", 1)
        for key in (
            keyspace.slot_files(base),
            keyspace.pool_ranges(base),
            keyspace.pool_runs_with_room(base, 64),
        ):
            index.hset(key, "x", 1)
        index.hset(keyspace.STORAGE_CHECKED, f"{number}:lost", 3)
    storage_remove(acting=ADMIN, name="nfs_a")
    assert index.exists(keyspace.storage(segment.number)), "a deletion may still be under way"
    assert purge_later() == 2
    left = {key.decode() for key in index.scan_iter("{st:*")}
    assert left == {"{st:8}", "{st:8}:f", "{st:8}:i", "{st:8}:h64"}
    assert index.hkeys(keyspace.STORAGE_CHECKED) == [b"8:lost"]


def test_what_returned_is_left_alone(index: redis.Redis, purge_later: Purge) -> None:
    old = make_group().entry.number
    make_instance()
    count(index, "model-a", 5)
    instance_remove(acting=ADMIN, instance_id="model-a")
    group_remove(acting=ADMIN, name="chat")
    new = make_group().entry.number
    make_instance()
    purge_later()
    found = index_registry.read(index)
    assert (list(found.groups), list(found.instances)) == (["chat"], ["model-a"])
    assert index.hgetall(keyspace.COUNTERS) == {b"model-a|requests": b"5"}
    assert not index.exists(keyspace.group_limits(keyspace.group(old)))
    assert index.exists(keyspace.group_limits(keyspace.group(new)))


def test_a_newer_tombstone_has_its_own_hour(index: redis.Redis) -> None:
    make_group()
    for _ in range(2):
        make_instance()
        instance_remove(acting=ADMIN, instance_id="model-a")
    index.delete(keyspace.LEAVING)
    RegistryRemoval.objects.filter(pk=RegistryRemoval.objects.earliest("pk").pk).update(due_at=timezone.now())
    assert purge(client=index, now=timezone.now()) == 1
    assert index.hexists(keyspace.REGISTRY, "instance:model-a")


def test_a_group_waits_for_the_data_of_its_instances(index: redis.Redis, purge_later: Purge) -> None:
    number = make_group().entry.number
    make_instance()
    instance_remove(acting=ADMIN, instance_id="model-a")
    group_remove(acting=ADMIN, name="chat")
    limits = keyspace.group_limits(keyspace.group(number))
    assert purge(client=index, now=timezone.now() + LATER) == 0, "its instance is on the list of the leaving"
    index.hset(keyspace.group_vectors(keyspace.group(number)), "1:0", "x")
    RegistryRemoval.objects.update(due_at=timezone.now())
    assert purge_later() == 1, "the instance alone"
    assert index.exists(limits)
    index.delete(keyspace.group_vectors(keyspace.group(number)))
    assert purge_later() == 0, "it is looked at again some minutes later"
    RegistryRemoval.objects.update(due_at=timezone.now())
    assert purge_later() == 1
    assert not index.exists(limits)


def test_a_groups_own_redis_that_is_away_keeps_nothing_else_waiting(index: redis.Redis, settings) -> None:
    with valkey_server() as away:
        indexer = MetaIndexerSettings(storage_type="redis", storage_uri=away.url)
        make_group("far", meta_indexer=indexer)
        make_group("near")
        for name in ("far", "near"):
            group_remove(acting=ADMIN, name=name)
    both = PlacedClient(index, settings.KVCM_REDIS_URL, blocking.client, is_lenient=False)
    assert purge(client=both, now=timezone.now() + LATER) == 1
    assert [removal.name for removal in RegistryRemoval.objects.all()] == ["far"]


def test_a_pass_is_bounded(index: redis.Redis, purge_later: Purge, monkeypatch) -> None:
    monkeypatch.setattr("apps.control.services.purge._AT_ONCE", 2)
    for number in range(3):
        make_group(f"g{number}")
        group_remove(acting=ADMIN, name=f"g{number}")
    assert [purge_later() for _ in range(3)] == [2, 1, 0]


def test_what_only_the_index_knew_is_purged_too(index: redis.Redis, purge_later: Purge) -> None:
    """After a restore of the database the index may list what no row tells of."""
    entry = make_group("lost").entry
    group_remove(acting=ADMIN, name="lost")
    RegistryRemoval.objects.all().delete()
    index_registry.publish(index, version=50, changed=[entry])
    reconcile(client=index)
    assert index.hget(keyspace.REGISTRY, "group:lost").endswith(b" ")
    assert purge_later() == 1
    assert not index.exists(keyspace.REGISTRY, keyspace.group_limits(keyspace.group(entry.number)))


def test_control_does_it_by_itself(control: Control, index: redis.Redis) -> None:
    make_group()
    group_remove(acting=ADMIN, name="chat")
    RegistryRemoval.objects.update(due_at=timezone.now())
    eventually(lambda: not index.hexists(keyspace.REGISTRY, "group:chat"), seconds=12)
