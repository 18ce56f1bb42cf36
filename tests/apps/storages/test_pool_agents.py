"""A memory pool of three real agents: one hangs, one dies, one comes back with other memory, all go."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from apps.common.redis_client import blocks_client
from apps.storages.models import Storage, StorageSegment
from apps.storages.services import departures_settle, storage_add, storage_remove
from apps.storages.tasks import check_storages
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import StorageSettings
from tests.apps.storages.looks import published
from tests.factories.actors import ADMIN
from tests.support.eventually import eventually
from tests.support.mempool import AgentHost, RunningAgent, agent_host, pool_spec

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def host() -> Iterator[AgentHost]:
    with agent_host() as host:
        yield host


def pool_of(agents: list[RunningAgent]) -> Storage:
    spec = pool_spec(*agents, timeout=1000)
    return storage_add(
        acting=ADMIN, name="pool", kind=StorageType.TAIR_MEMPOOL, spec=spec, settings=StorageSettings()
    )


def served(index: redis.Redis) -> list[str]:
    return [s.node_id for s in published(index, "pool").segments if s.is_available]


def test_agents_that_hang_die_and_return(index: redis.Redis, host: AgentHost, settings: Any) -> None:
    agents = [host.start(node_id) for node_id in "abc"]
    pool_of(agents)
    entry = published(index, "pool")
    assert entry.is_writable
    assert served(index) == ["a", "b", "c"], "usable at once"
    assert {s.segment_id for s in entry.segments} == {agent.segment_id for agent in agents}

    agents[1].process.send_signal(signal.SIGSTOP)
    try:
        check_storages()
        assert served(index) == ["a", "c"], "out within one round, after a second look"
        assert published(index, "pool").is_writable, "the others go on"
    finally:
        agents[1].process.send_signal(signal.SIGCONT)
    eventually(lambda: check_storages() and served(index) == ["a", "b", "c"], seconds=20)

    number = StorageSegment.objects.get(node_id="c").number
    agents[2].kill()
    back = host.restart(agents[2])
    assert back.segment_id == agents[2].segment_id, "its memory outlived the process"
    check_storages()
    assert StorageSegment.objects.get(node_id="c").number == number
    assert served(index) == ["a", "b", "c"]

    back.kill()
    host.restart(back, "32M", "--discard")
    check_storages()
    entry = published(index, "pool")
    assert entry.lost_numbers == (number,)
    assert served(index) == ["a", "b", "c"]
    assert number not in entry.served_numbers
    later = timezone.now() + timedelta(seconds=10)
    assert departures_settle(client=blocks_client(), now=later) == ["pool"], "it held nothing"
    assert published(index, "pool").lost_numbers == ()

    other = storage_add(
        acting=ADMIN,
        name="other",
        kind=StorageType.TAIR_MEMPOOL,
        spec=pool_spec(*host.running[-1:]),
        settings=StorageSettings(),
    )
    assert "belongs to" in other.health_message, "the check claimed the new memory as well"
    storage_remove(acting=ADMIN, name="other")

    settings.KVCM_STORAGE_HEALTH = HealthLimits(pool_lost_seconds=10)
    for agent in host.running:
        if agent.process.poll() is None:
            agent.kill()
    check_storages()
    check_storages()
    assert not published(index, "pool").is_served
    assert set(StorageSegment.objects.values_list("state", flat=True)) == {"unavailable"}, "none is given up"
