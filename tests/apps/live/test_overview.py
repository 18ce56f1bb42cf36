"""The picture, over REST and by itself, from a real Valkey."""

from __future__ import annotations

import msgpack
import pytest
from django.test import Client

from apps.live.overview import Overview
from kvcm_platform.core.registry import GroupEntry, Quota, StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.index import keyspace, registry

FIELDS = {
    *("requests_per_second", "requested_blocks", "hit_blocks", "hit_rate", "totals"),
    *("used_bytes", "reserved_bytes", "pending_bytes", "quota_bytes", "blocks", "open_write_sessions"),
    *("storages_healthy", "storages_total", "groups_total", "instances_total"),
    *("processes", "rpcs", "verdict", "history", "day", "savings"),
}


def test_rest_gives_the_data_of_the_live_topic(server, happen, account) -> None:
    happen(4, 1)
    client = Client()
    client.force_login(account(), backend="django.contrib.auth.backends.ModelBackend")
    answer = client.get("/api/v1/overview")
    assert answer.status_code == 200
    assert set(answer.json()) == FIELDS
    assert answer.json()["hit_rate"] == 0.25


def test_rest_refuses_strangers(server, transactional_db) -> None:
    assert Client().get("/api/v1/overview").status_code == 401


def test_rest_refuses_accounts_limited_to_groups(server, account) -> None:
    client = Client()
    client.force_login(account(groups=["chat"]), backend="django.contrib.auth.backends.ModelBackend")
    answer = client.get("/api/v1/overview")
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


def test_storages_and_groups_come_from_the_registry(server) -> None:
    sick = StorageEntry(name="b", number=2, type=StorageType.NFS, spec={}, is_available=False)
    registry.publish(
        server,
        version=1,
        changed=[
            StorageEntry(name="a", number=1, type=StorageType.NFS, spec={}),
            sick,
            GroupEntry(name="g", number=1, storage_candidates=("a",), quota=Quota(500)),
        ],
    )
    overview = Overview(server)
    picture = overview.picture()
    assert (picture["storages_healthy"], picture["storages_total"], picture["groups_total"]) == (1, 2, 1)
    assert picture["quota_bytes"] == 500
    assert picture["verdict"]["state"] == "degraded"

    registry.publish(server, version=2, removed=[("storage", "b")])
    assert overview.picture()["storages_total"] == 1


def test_facts_that_cannot_be_read_hold_up_no_others(server, happen) -> None:
    overview = Overview(server)
    for entry in ("{", "[]", '{"process": "p"}'):
        server.xadd(keyspace.FACTS, {"d": entry})
    server.xadd(keyspace.FACTS, {"other": "1"})
    happen(4, 1)
    assert overview.picture()["hit_rate"] == 0.25


@pytest.mark.parametrize("day", ["{", "[]", "{}", '{"since": "now", "until": 1}'])
def test_figures_of_the_day_that_cannot_be_read_are_left_out(server, day: str) -> None:
    server.set(keyspace.OVERVIEW_DAY, day)
    assert Overview(server).picture()["day"] is None


def test_quotas_as_large_as_they_may_be(server) -> None:
    """Together they are more than a message has numbers for."""
    groups = [
        GroupEntry(name=f"g{n}", number=n, storage_candidates=("a",), quota=Quota((1 << 63) - 1))
        for n in (1, 2, 3)
    ]
    registry.publish(server, version=1, changed=groups)
    picture = Overview(server).picture()
    assert picture["quota_bytes"] == (1 << 63) - 1
    assert msgpack.packb(picture)


def test_totals_outlive_the_window_and_the_process(server, happen) -> None:
    happen(10, 5)
    happen(20, 5, instance="model-b")
    server.delete(keyspace.FACTS)
    picture = Overview(server).picture()
    assert picture["requested_blocks"] == 0
    assert picture["totals"]["requested_blocks"] == 30
    assert picture["totals"]["hit_blocks"] == 10


def test_a_new_process_knows_the_last_five_minutes_and_the_history(server, happen) -> None:
    happen(10, 5)
    first = Overview(server).picture()
    assert first["requested_blocks"] == 10
    second = Overview(server).picture()
    assert second["history"][0] == first["history"][0]


def test_without_redis_the_verdict_is_down(server, happen) -> None:
    happen(10, 5)
    overview = Overview(server)
    overview.picture()

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("gone")

    server.execute_command = refuse  # type: ignore[method-assign]
    server.pipeline = refuse  # type: ignore[method-assign]
    picture = overview.picture()
    assert picture["verdict"]["state"] == "down"
    assert picture["totals"]["requested_blocks"] == 10


@pytest.mark.parametrize("age", [0.0, 60.0])
def test_pictures_are_shared_while_they_are_young(server, happen, age: float) -> None:
    overview = Overview(server)
    overview.picture()
    happen(10, 5)
    assert overview.picture(max_age=age)["requested_blocks"] == (10 if age == 0 else 0)
