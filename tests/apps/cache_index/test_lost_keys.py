"""A Redis that drops keys: who hears of it before, and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from apps.audit.models import Event
from apps.cache_index.conditions import deletions_unreadable, keys_lost, policies_foreign
from apps.cache_index.tasks import run_duties
from apps.common.redis_client import figures_client
from apps.control.services.memory_policy import memory_policies_note
from apps.live.overview import Overview
from kvcm_platform.core.registry import MetaIndexerSettings
from kvcm_platform.index import keyspace
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.eventually import eventually
from tests.support.valkey import ValkeyServer, valkey_server

pytestmark = pytest.mark.django_db(transaction=True)
TOLD = {"told_seconds": 600.0}


@pytest.fixture
def own() -> Iterator[ValkeyServer]:
    with valkey_server() as server:
        yield server


def set_policy(client: redis.Redis, policy: str) -> None:
    client.config_set("maxmemory-policy", policy)


@pytest.fixture
def foreign(index: redis.Redis) -> Iterator[redis.Redis]:
    """The platform's Redis may drop keys (it is shared by tests)."""
    set_policy(index, "allkeys-lru")
    yield index
    set_policy(index, "noeviction")


def faults(index: redis.Redis) -> list[str]:
    return [one for one in Overview(figures_client()).picture()["verdict"]["reasons"] if "Redis" in one]


def test_a_server_that_keeps_everything_is_fine(index: redis.Redis) -> None:
    assert list(policies_foreign({})) == []
    assert faults(index) == []
    assert memory_policies_note(client=figures_client()) == []


def test_a_server_that_may_drop_keys_is_told_of_everywhere(foreign: redis.Redis) -> None:
    (finding,) = policies_foreign({})
    assert (finding.subject, finding.groups) == ("index", None)
    assert "maxmemory-policy allkeys-lru" in finding.message
    assert faults(foreign) == [finding.message]
    assert Overview(figures_client()).picture()["verdict"]["state"] == "down", "no process runs in this test"
    assert memory_policies_note(client=figures_client()) == [finding.message]
    assert memory_policies_note(client=figures_client()) == [], "once a turn"
    event = Event.objects.get(kind="index.memory_policy")
    assert (event.message, event.severity) == (finding.message, "warning")
    set_policy(foreign, "noeviction")
    assert list(policies_foreign({})) == []
    assert memory_policies_note(client=figures_client()) == []
    set_policy(foreign, "volatile-ttl")
    assert "volatile-ttl" in memory_policies_note(client=figures_client())[0]


def test_so_is_a_groups_own(index: redis.Redis, own: ValkeyServer, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group("far", meta_indexer=MetaIndexerSettings(storage_type="redis", storage_uri=own.url))
    set_policy(own.client(), "allkeys-random")
    eventually(lambda: figures_client().places().urls)  # which are remembered for a moment
    (finding,) = policies_foreign({})
    assert (finding.subject, finding.groups) == ("far", ("far",))
    assert finding.message.startswith("The Redis of group far has maxmemory-policy allkeys-random")
    assert faults(index) == [finding.message]
    own.kill()
    assert list(policies_foreign({})) == [], "one that is away says nothing, and keeps nobody from asking"


def test_lost_keys_are_an_event_and_an_alert(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    base = keyspace.instance(make_instance().number, 0)
    run_duties()
    index.hset(base, mapping={"n:262145:s": 3, "b:262145:s": 3072, "seq": 1, "gen": 1})
    for _ in range(2):
        index.delete(keyspace.DAMAGE_LOOKED)
        run_duties()
    event = Event.objects.get(kind="index.keys_lost")
    assert event.subject == "Instance model-a" and "lost keys in Redis by itself (blocks)" in event.message
    (finding,) = keys_lost(TOLD)
    assert (finding.subject, finding.groups) == ("Instance model-a", ("chat",))
    assert "was made whole" in finding.message
    assert list(keys_lost({"told_seconds": 0.0})) == []
    assert index.hget(base, "n:262145:s") is None
    assert faults(index) == [], "it is whole again"


def test_a_deletion_that_cannot_be_read_is_kept_and_shown(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    base = keyspace.instance(make_instance().number, 0)
    assert list(deletions_unreadable({})) == []
    index.hset(keyspace.pending(base), b"aaaaaaaa00000000", b"d\x04nonsense")
    index.zadd(keyspace.pending_due(base), {b"aaaaaaaa00000000": 1})
    run_duties()
    (finding,) = deletions_unreadable({})
    assert finding.value == 1 and f"{base}|6161616161616161" in finding.message
    assert index.hlen(keyspace.pending(base)) == 1
