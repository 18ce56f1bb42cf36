"""Groups and instances through their services: locks, limits, registration, removal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import redis
from django.db import connections

from apps.audit.models import AuditEntry
from apps.common import services
from apps.instances.models import GroupQuota, Instance, InstanceGroup, InstanceNumber
from apps.instances.selectors import group_entries, instance_entries
from apps.instances.services import (
    group_create,
    group_remove,
    group_update,
    instance_register,
    instance_remove,
)
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import (
    LocationSpecGroup,
    MetaIndexerSettings,
    ModelDeployment,
    Quota,
    ReclaimSettings,
)
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.instances import Registration
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from tests.factories.actors import ADMIN
from tests.factories.objects import group_settings, make_group, make_instance, registration

pytestmark = pytest.mark.django_db(transaction=True)
NOWHERE = "unix:///nowhere/at/all.sock"


def refused(work: object, **arguments: object) -> Code:
    with pytest.raises(DomainError) as caught:
        work(acting=ADMIN, **arguments)  # type: ignore[operator]
    return caught.value.code


def register(wanted: Registration) -> bool:
    return instance_register(acting=ADMIN, registration=wanted).is_new


def test_group_is_stored_as_rows_and_published_as_one_entry(index: redis.Redis) -> None:
    quota = Quota(1000, {StorageType.NFS: 600, StorageType.HF3FS: 400})
    detail = make_group(storage_candidates=("b", "a"), quota=quota, reclaim=ReclaimSettings(grace_seconds=5))
    assert dict(GroupQuota.objects.values_list("storage_type", "capacity_bytes")) == {
        "nfs": 600,
        "hf3fs": 400,
    }
    assert index_registry.read(index).groups == {"chat": detail.entry}
    assert group_entries() == [detail.entry]
    assert detail.entry.storage_candidates == ("b", "a")


def test_rows_of_before_there_were_budgets(index: redis.Redis) -> None:
    make_group()
    row = InstanceGroup.objects.get()
    row.reclaim = {
        name: value for name, value in row.reclaim.items() if name not in {"budget", "ttl_seconds"}
    }
    row.save()
    (entry,) = group_entries()
    assert entry.reclaim == ReclaimSettings()


def test_changed_limits_wake_reclaim(index: redis.Redis) -> None:
    """Whatever decides how much a group may hold; nothing else."""
    make_group(quota=Quota(1000))
    assert index.xlen(keyspace.WAKE) == 0
    changes: list[tuple[dict[str, object], bool]] = [
        ({"user_data": "x"}, False),
        ({"quota": Quota(900)}, True),
        ({"quota": Quota(900, {StorageType.NFS: 5})}, True),
        ({"reclaim": ReclaimSettings(used_ratio=0.5)}, True),
        ({"meta_indexer": MetaIndexerSettings(max_key_count=32)}, True),
        ({"meta_indexer": MetaIndexerSettings(max_key_count=32, batch_key_size=2)}, False),
    ]
    for change, wakes in changes:
        group_update(acting=ADMIN, name="chat", change=lambda s, c=change: replace(s, **c))
        entries = [fields for _, fields in index.xrange(keyspace.WAKE)]
        assert entries == ([{b"reason": b"limits", b"group": b"chat"}] if wakes else []), change
        index.delete(keyspace.WAKE)


def test_a_lower_quota_is_in_force_when_reclaim_is_woken(
    index: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_group(quota=Quota(1000))
    seen = []
    send = services.wake_command

    def look(*args: object, **fields: str) -> object:
        number = index_registry.read(index).groups["chat"].number
        seen.append(index.hget(keyspace.group_limits(keyspace.group(number)), "total"))
        return send(*args, **fields)

    monkeypatch.setattr(services, "wake_command", look)
    group_update(acting=ADMIN, name="chat", change=lambda s: replace(s, quota=Quota(5)))
    assert seen == [b"5"]


def test_a_lost_wake_loses_no_change(index: redis.Redis) -> None:
    make_group(quota=Quota(1000))
    index.set(keyspace.WAKE, "not a stream")
    group_update(acting=ADMIN, name="chat", change=lambda s: replace(s, quota=Quota(5)))
    assert index_registry.read(index).groups["chat"].quota == Quota(5)


def test_group_update(index: redis.Redis) -> None:
    make_group()
    changed = group_update(
        acting=ADMIN,
        name="chat",
        change=lambda s: replace(s, storage_candidates=("x", "y"), quota=Quota(5)),
        expected_version=1,
    )
    entry = index_registry.read(index).groups["chat"]
    assert entry == changed.detail.entry
    assert (entry.version, entry.storage_candidates, entry.quota) == (2, ("x", "y"), Quota(5))
    assert len(changed.warnings) == 2
    assert AuditEntry.objects.get(action="group.update").after["storage_candidates"] == ["x", "y"]
    assert refused(group_update, name="chat", change=lambda s: s, expected_version=1) is Code.CONFLICT
    assert refused(group_update, name="none", change=lambda s: s) is Code.NOT_FOUND


def test_refused_change_leaves_nothing_behind(index: redis.Redis) -> None:
    make_group()
    before = index.hgetall("{kvcm}:registry")
    bad = {"name": "chat", "change": lambda s: replace(s, quota=Quota(-1))}
    assert refused(group_update, **bad) is Code.INVALID_ARGUMENT
    assert index.hgetall("{kvcm}:registry") == before
    assert InstanceGroup.objects.get().version == 1
    assert not AuditEntry.objects.filter(action="group.update").exists()


def test_where_a_groups_index_lies_is_fixed_at_its_creation(index: redis.Redis) -> None:
    def lying_at(url: str, kind: str = "redis") -> MetaIndexerSettings:
        return MetaIndexerSettings(storage_type=kind, storage_uri=url)

    wrong = group_settings(meta_indexer=lying_at("redis://a:1,b:2"))
    assert refused(group_create, name="chat", settings=wrong) is Code.INVALID_ARGUMENT
    far = lying_at(NOWHERE)
    make_group(meta_indexer=far)  # a server that is away keeps nothing from being published
    number = InstanceGroup.objects.get().number
    assert index.hgetall(keyspace.PLACED) == {b"g:%d" % number: NOWHERE.encode()}

    def change(to: MetaIndexerSettings):
        return lambda stored: replace(stored, meta_indexer=to, quota=Quota(5))

    for moved in (lying_at("redis://elsewhere"), lying_at("", "local"), lying_at(NOWHERE, "local")):
        assert refused(group_update, name="chat", change=change(moved)) is Code.INVALID_ARGUMENT
    kept = group_update(acting=ADMIN, name="chat", change=change(replace(far, max_key_count=9)))
    assert kept.detail.settings.quota.capacity_bytes == 5


def test_lost_updates_are_impossible() -> None:
    """Writers at once, each for version 1: one wins, the others are told."""
    make_group()

    def write(number: int) -> Code | None:
        try:
            group_update(
                acting=ADMIN,
                name="chat",
                change=lambda s: replace(s, user_data=str(number)),
                expected_version=1,
            )
        except DomainError as error:
            return error.code
        finally:
            connections.close_all()
        return None

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(write, range(6)))
    assert sorted(outcomes, key=str) == [None, *[Code.CONFLICT] * 5]


def test_names_come_back_with_a_new_number(index: redis.Redis) -> None:
    first = make_group().entry.number
    group_remove(acting=ADMIN, name="chat")
    assert index_registry.read(index).groups == {}
    assert make_group().entry.number == first + 1
    assert refused(group_create, name="chat", settings=group_settings()) is Code.DUPLICATE
    assert refused(group_create, name="a/b", settings=group_settings()) is Code.INVALID_ARGUMENT


def test_registration_is_in_the_index_when_it_answers(index: redis.Redis) -> None:
    make_group()
    entry = make_instance()
    assert index_registry.read(index).instances == {"model-a": entry}
    assert instance_entries() == [entry]
    assert (entry.group, entry.shards, entry.model_deployment.tp_size) == ("chat", 1, 2)


def test_identical_registration(index: redis.Redis) -> None:
    """Identity leaves out group and user data, and the order of spec groups (WIRE.md 1.5, A)."""
    make_group()
    make_group("other")
    two = (LocationSpecGroup("z", ("tp1", "tp0")), LocationSpecGroup("a", ("tp1",)))
    wanted = registration(location_spec_groups=two)
    version_before = index_registry.read_version(index)
    assert register(wanted)
    version = index_registry.read_version(index)
    assert version == (version_before or 0) + 1
    for same in (
        wanted,
        replace(wanted, instance_group="other"),
        replace(wanted, location_spec_groups=tuple(reversed(two))),
        replace(wanted, model_deployment=replace(wanted.model_deployment, user_data="x")),
    ):
        assert not register(same)
    assert index_registry.read_version(index) == version, "nothing to publish"
    for other in (
        replace(wanted, block_size=17),
        replace(wanted, location_spec_infos=tuple(reversed(wanted.location_spec_infos))),
        replace(wanted, location_spec_groups=two[:1]),
        replace(wanted, model_deployment=ModelDeployment("llama", "fp8", tp_size=2)),
    ):
        assert refused(instance_register, registration=other) is Code.DUPLICATE
    assert Instance.objects.get().group.name == "chat"


def test_max_instance_count(index: redis.Redis) -> None:
    make_group(max_instance_count=2)
    make_instance("a")
    make_instance("b")
    assert refused(instance_register, registration=registration("c")) is Code.CAPACITY
    assert not register(registration("b"))
    instance_remove(acting=ADMIN, instance_id="a")
    assert register(registration("c"))


def test_registration_without_redis(index: redis.Redis, settings) -> None:
    """Not OK until the entry is in Redis; a repetition then completes what the first call began."""
    make_group()
    url, settings.KVCM_REDIS_URL = settings.KVCM_REDIS_URL, NOWHERE
    assert refused(instance_register, registration=registration()) is Code.NOT_READY
    assert refused(instance_register, registration=registration()) is Code.NOT_READY
    settings.KVCM_REDIS_URL = url
    assert index_registry.read(index).instances == {}
    assert not register(registration())
    assert index_registry.read(index).instances == {"model-a": instance_entries()[0]}


def test_many_processes_register_the_same_instance_at_once(index: redis.Redis) -> None:
    make_group(max_instance_count=1)

    def one(_: int) -> bool:
        try:
            return register(registration())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(one, range(16)))
    assert sum(outcomes) == 1
    assert Instance.objects.count() == InstanceNumber.objects.count() == 1


def test_limit_holds_against_registrations_at_once(index: redis.Redis) -> None:
    make_group(max_instance_count=3)

    def one(number: int) -> Code | None:
        try:
            register(registration(f"model-{number}"))
        except DomainError as error:
            return error.code
        finally:
            connections.close_all()
        return None

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(one, range(10)))
    assert outcomes.count(None) == 3
    assert outcomes.count(Code.CAPACITY) == 7


def test_number_stays_taken_after_removal(index: redis.Redis, sent: list[str]) -> None:
    make_group()
    first = make_instance()
    instance_remove(acting=ADMIN, instance_id="model-a")
    tombstone = InstanceNumber.objects.get()
    assert (tombstone.number, tombstone.removed_at is not None) == (first.number, True)
    assert make_instance().number != first.number
    assert InstanceNumber.objects.count() == 2
    assert refused(instance_remove, instance_id="nobody") is Code.INSTANCE_NOT_EXIST


def test_group_with_instances_stays(index: redis.Redis) -> None:
    make_group()
    make_instance()
    assert refused(group_remove, name="chat") is Code.IN_USE
    instance_remove(acting=ADMIN, instance_id="model-a")
    group_remove(acting=ADMIN, name="chat")
