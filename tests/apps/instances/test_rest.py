"""Instance groups and instances over REST (docs/api.md)."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common.actor import Role
from kvcm_platform.core.registry import FairnessLimits
from kvcm_platform.core.types import ReclaimBudget
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from tests.apps.conftest import Api
from tests.factories.objects import make_group, make_instance

pytestmark = pytest.mark.django_db(transaction=True)
GROUPS, INSTANCES = "/api/v1/instance-groups/", "/api/v1/instances/"
GROUP_MEMBERS = {
    *("name", "storage_candidates", "prefer_strategy", "placement", "quota", "reclaim", "max_instance_count"),
    *("meta_indexer", "global_quota_group_name", "user_data", "version", "instance_count", "usage"),
    *("limits", "migration", "admission", "traffic", "created_at", "updated_at"),
}


def body(name: str = "chat", **more: Any) -> dict[str, Any]:
    return {"name": name, "storage_candidates": ["nfs_a"], "quota": {"capacity_bytes": 1000}, **more}


def test_from_create_to_delete(api: Api, index: redis.Redis) -> None:
    client = api(Role.OPERATOR)
    made = client.post(GROUPS, body(quota={"capacity_bytes": 1000, "per_type": {"nfs": 10}}))
    assert (made.status_code, set(made.json())) == (201, GROUP_MEMBERS)
    got = client.get(f"{GROUPS}chat/").json()
    assert got["quota"] == {"capacity_bytes": 1000, "per_type": {"nfs": 10}}
    assert (got["prefer_strategy"], got["reclaim"]["used_ratio"], got["version"]) == ("prefer_3fs", 0.8, 1)
    assert got["traffic"] == {
        "requested_blocks": 0,
        "hit_blocks": 0,
        "hit_rate": None,
        "write_refused": 0,
        "quota_refused": 0,
    }
    assert got["usage"] == {
        "used_bytes": 0,
        "reserved_bytes": 0,
        "pending_bytes": 0,
        "blocks": 0,
        "per_type": {},
    }
    assert client.delete(f"{GROUPS}chat/").status_code == 204
    assert client.get(f"{GROUPS}chat/").json()["code"] == "not_found"


def test_partial_update_reaches_into_the_members(api: Api, index: redis.Redis) -> None:
    client = api(Role.OPERATOR)
    client.post(GROUPS, body(quota={"capacity_bytes": 1000, "per_type": {"nfs": 10}}, user_data="keep"))
    change = {
        "version": 1,
        "quota": {"capacity_bytes": 2000},
        "reclaim": {"low_watermark_ratio": 0.5},
        "meta_indexer": {"cache_policy": {"capacity_mb": 7}},
        "placement": "balanced",
    }
    changed = client.patch(f"{GROUPS}chat/", change).json()
    assert (changed["placement"], changed["prefer_strategy"]) == ("balanced", "prefer_3fs")
    assert changed["quota"] == {"capacity_bytes": 2000, "per_type": {"nfs": 10}}
    assert (changed["reclaim"]["low_watermark_ratio"], changed["reclaim"]["used_ratio"]) == (0.5, 0.8)
    assert changed["meta_indexer"]["cache_policy"] == {
        "capacity_mb": 7,
        "type": "lru",
        "shard_bits": 6,
        "high_pri_pool_ratio": 0.0,
    }
    assert (changed["version"], changed["user_data"]) == (2, "keep")
    assert client.patch(f"{GROUPS}chat/", {"quota": {"per_type": {}}}).json()["quota"]["per_type"] == {}
    assert client.patch(f"{GROUPS}chat/", change).status_code == 409
    assert client.patch(f"{GROUPS}chat/", {"user_data": "x"}, HTTP_IF_MATCH="1").status_code == 409
    assert index_registry.read(index).groups["chat"].quota.capacity_bytes == 2000


def test_how_a_group_reclaims(api: Api, index: redis.Redis) -> None:
    client = api(Role.OPERATOR)
    made = client.post(GROUPS, body(reclaim={"policy": "ttl", "ttl_seconds": 3600})).json()["reclaim"]
    assert (made["policy"], made["ttl_seconds"], made["budget"]) == ("ttl", 3600, "group_lru")
    changed = client.patch(f"{GROUPS}chat/", {"reclaim": {"budget": "usage_proportional"}}).json()["reclaim"]
    assert changed == {**made, "budget": "usage_proportional"}
    entry = index_registry.read(index).groups["chat"].reclaim
    assert (entry.ttl_seconds, entry.budget) == (3600, ReclaimBudget.USAGE_PROPORTIONAL)
    for wrong in ({"ttl_seconds": -1}, {"budget": "luck"}):
        answer = client.patch(f"{GROUPS}chat/", {"reclaim": wrong})
        assert (answer.status_code, answer.json()["field"]) == (400, f"reclaim.{next(iter(wrong))}")


def test_what_was_refused_is_counted_by_instance_and_group(api: Api, index: redis.Redis) -> None:
    make_group()
    make_instance("a")
    make_instance("b")
    for name, refused, by_quota in (("a", 5, 3), ("b", 2, 2)):
        index.hset(keyspace.COUNTERS, f"{name}|write_refused", refused)
        index.hset(keyspace.COUNTERS, f"{name}|quota_refused", by_quota)
    client = api(Role.VIEWER)
    group = client.get(f"{GROUPS}chat/").json()["traffic"]
    assert (group["write_refused"], group["quota_refused"]) == (7, 5)
    instance = client.get(f"{INSTANCES}a/").json()["traffic"]
    assert (instance["write_refused"], instance["quota_refused"]) == (5, 3)


def test_fairness_limits(api: Api, index: redis.Redis) -> None:
    client = api(Role.OPERATOR)
    made = client.post(GROUPS, body(limits={"calls_per_second": 50})).json()
    assert made["limits"] == {"calls_per_second": 50, "blocks_per_second": 0, "write_session_ratio": 0.0}
    change = {"limits": {"blocks_per_second": 900, "write_session_ratio": 0.25}}
    limits = client.patch(f"{GROUPS}chat/", change).json()["limits"]
    assert limits == {"calls_per_second": 50, "blocks_per_second": 900, "write_session_ratio": 0.25}
    entry = index_registry.read(index).groups["chat"]
    assert entry.limits == FairnessLimits(50, 900, 0.25)
    in_tag = index.hgetall(keyspace.group_limits(keyspace.group(entry.number)))
    assert (in_tag[b"calls"], in_tag[b"blocks"], in_tag[b"sessions"]) == (b"50", b"900", b"0.25")
    client.patch(f"{GROUPS}chat/", {"limits": {"calls_per_second": None}})
    in_tag = index.hgetall(keyspace.group_limits(keyspace.group(entry.number)))
    assert b"calls" not in in_tag
    index.hset(keyspace.GROUP_COUNTERS, mapping={"chat|allowed_calls": 7, "chat|refused_sessions": 2})
    assert client.get(f"{GROUPS}chat/").json()["admission"] == {
        "allowed_calls": 7,
        "allowed_blocks": 0,
        "refused_calls": 0,
        "refused_blocks": 0,
        "refused_sessions": 2,
    }


def test_what_was_read_can_be_sent_back(api: Api) -> None:
    client = api(Role.OPERATOR)
    client.post(GROUPS, body())
    read = client.get(f"{GROUPS}chat/").json()
    answer = client.patch(f"{GROUPS}chat/", read)
    assert answer.status_code == 200
    settings = GROUP_MEMBERS - {"version", "updated_at", "created_at"}
    assert {name: answer.json()[name] for name in settings} == {name: read[name] for name in settings}


def test_bad_values(api: Api) -> None:
    client = api(Role.OPERATOR)
    for change, field in (
        ({"storage_candidates": []}, "storage_candidates"),
        ({"quota": {}}, "quota.capacity_bytes"),
        ({"quota": {"capacity_bytes": 1, "per_type": {"tape": 1}}}, "quota.per_type.tape"),
        ({"quota": {"capacity_bytes": "many"}}, "quota.capacity_bytes"),
        ({"prefer_strategy": "always_tape"}, "prefer_strategy"),
        ({"reclaim": {"policy": "fifo"}}, "reclaim.policy"),
        ({"reclaim": {"low_watermark_ratio": 0.9}}, "reclaim.low_watermark_ratio"),
        ({"limits": {"calls_per_second": -1}}, "limits.calls_per_second"),
        ({"limits": {"blocks_per_second": 1 << 31}}, "limits.blocks_per_second"),
        ({"limits": {"write_session_ratio": 1.5}}, "limits.write_session_ratio"),
        ({"meta_indexer": {"cache_policy": {"type": "fifo"}}}, "meta_indexer.cache_policy.type"),
    ):
        answer = client.post(GROUPS, body(**change))
        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (
            400,
            "invalid_argument",
            field,
        )


def test_instances_are_read_and_removed(api: Api, index: redis.Redis, sent: list[str]) -> None:
    make_group()
    entry = make_instance("org/model")
    index.hset(keyspace.COUNTERS, mapping={"org/model|requested_blocks": 10, "org/model|hit_blocks": 4})
    client = api(Role.OPERATOR)
    got = client.get(f"{INSTANCES}org%2Fmodel/").json()
    assert (got["instance_id"], got["instance_group"], got["number"]) == ("org/model", "chat", entry.number)
    assert got["location_spec_infos"] == [{"name": "tp0", "size": 1024}, {"name": "tp1", "size": 1024}]
    assert got["model_deployment"]["model_name"] == "llama"
    assert got["traffic"]["hit_rate"] == 0.4
    assert got["usage"] == {"used_bytes": 0, "pending_bytes": 0, "blocks": 0, "writing_blocks": 0}
    assert got["open_write_sessions"] == 0
    assert client.get(f"{GROUPS}chat/").json()["traffic"]["hit_rate"] == 0.4
    assert api(Role.VIEWER).delete(f"{INSTANCES}org%2Fmodel/").status_code == 403
    assert client.post(INSTANCES, {}).status_code == 405
    assert client.delete(f"{INSTANCES}org%2Fmodel/").status_code == 204
    gone = client.get(f"{INSTANCES}org%2Fmodel/")
    assert (gone.status_code, gone.json()["code"]) == (404, "instance_not_exist")


def test_scope(api: Api, index: redis.Redis, sent: list[str]) -> None:
    for name in ("chat", "search"):
        make_group(name)
        make_instance(f"of-{name}", name)
    client = api(Role.OPERATOR, groups=["chat"])
    assert [row["name"] for row in client.get(GROUPS).json()["results"]] == ["chat"]
    assert [row["instance_id"] for row in client.get(INSTANCES).json()["results"]] == ["of-chat"]
    assert client.patch(f"{GROUPS}search/", {"user_data": "x"}).status_code == 404
    assert client.delete(f"{INSTANCES}of-search/").status_code == 404
    assert client.post(GROUPS, body("new")).status_code == 403
    assert client.patch(f"{GROUPS}chat/", {"user_data": "x"}).status_code == 200


def test_order_search_and_filters(api: Api, index: redis.Redis) -> None:
    make_group("a", max_instance_count=1)
    make_group("b")
    make_instance("x", "b")
    make_instance("y", "b")
    make_instance("z", "a")
    client = api(Role.VIEWER)

    def of(address: str, name: str) -> list[str]:
        return [row[name] for row in client.get(address).json()["results"]]

    assert of(f"{GROUPS}?ordering=-instance_count", "name") == ["b", "a"]
    assert of(f"{GROUPS}?search=a", "name") == ["a"]
    assert of(f"{INSTANCES}?instance_group=b", "instance_id") == ["x", "y"]
    assert of(f"{INSTANCES}?ordering=instance_group,-instance_id", "instance_id") == ["z", "y", "x"]
    assert of(f"{INSTANCES}?search=z", "instance_id") == ["z"]
    assert client.get(f"{GROUPS}a/").json()["instance_count"] == 1


def test_number_of_queries_is_constant(api: Api, index: redis.Redis) -> None:
    client = api(Role.VIEWER)
    counts = []
    for number in range(5):
        make_group(f"g{number}", storage_candidates=("a", "b"))
        make_instance(f"i{number}", f"g{number}")
        client.get(GROUPS)
        found = []
        for address in (GROUPS, INSTANCES, f"{GROUPS}g0/", f"{INSTANCES}i0/"):
            with CaptureQueriesContext(connection) as queries:
                assert client.get(address).status_code == 200
            found.append(len(queries))
        counts.append(found)
    assert counts == [[6, 3, 7, 2]] * 5, "token; count, page; ids, quotas, candidates"


def test_figures_are_null_without_redis(api: Api, settings) -> None:
    make_group()
    client = api(Role.VIEWER)
    group = client.get(GROUPS).json()["results"][0]
    assert (group["usage"], group["traffic"]) == (None, None)
