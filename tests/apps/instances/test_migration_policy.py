"""The migration policy of a group over REST, and what the protocol leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from apps.audit.models import AuditEntry
from apps.common.actor import Role
from kvcm_platform.core.types import Retention
from kvcm_platform.index import registry as index_registry
from tests.apps.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
GROUPS = "/api/v1/instance-groups/"
CHAT = f"{GROUPS}chat/"
PLAIN = {
    "source": "pool_a",
    "target": "nfs_a",
    "trigger_ratio": 0.8,
    "low_ratio": 0.7,
    "retention": "delete_source",
    "promote_after_hits": 0,
    "max_bytes_per_second": 0,
    "verify": True,
    "enabled": True,
}


def body(**more: Any) -> dict[str, Any]:
    return {"name": "chat", "storage_candidates": ["nfs_a"], "quota": {"capacity_bytes": 1000}, **more}


def test_a_group_has_none_until_it_is_given_one(api: Api, index: redis.Redis) -> None:
    client = api(Role.OPERATOR)
    assert client.post(GROUPS, body()).json()["migration"] is None
    given = client.patch(CHAT, {"migration": {"source": "pool_a", "target": "nfs_a"}}).json()
    assert (given["migration"], given["version"]) == (PLAIN, 2)
    assert AuditEntry.objects.filter(action="group.update", object_name="chat").count() == 1
    changed = client.patch(CHAT, {"migration": {"retention": "keep_both", "enabled": False}}).json()
    assert changed["migration"] == PLAIN | {"retention": "keep_both", "enabled": False}
    published = index_registry.read(index).groups["chat"].migration
    assert published is not None
    assert (published.retention, published.is_enabled, published.source) == (
        Retention.KEEP_BOTH,
        False,
        "pool_a",
    )
    assert client.patch(CHAT, {"migration": None}).json()["migration"] is None
    assert index_registry.read(index).groups["chat"].migration is None


@pytest.mark.parametrize(
    ("member", "value", "field"),
    [
        ("source", "", "migration.source"),
        ("target", "pool_a", "migration.target"),
        ("target", "a/b", "migration.target"),
        ("trigger_ratio", 0, "migration.trigger_ratio"),
        ("trigger_ratio", 1.5, "migration.trigger_ratio"),
        ("low_ratio", 0.8, "migration.low_ratio"),
        ("low_ratio", -0.1, "migration.low_ratio"),
        ("promote_after_hits", -1, "migration.promote_after_hits"),
        ("max_bytes_per_second", -1, "migration.max_bytes_per_second"),
        ("retention", "forget", "migration.retention"),
    ],
)
def test_bad_values_name_their_field(
    api: Api, index: redis.Redis, member: str, value: Any, field: str
) -> None:
    answer = api(Role.OPERATOR).post(GROUPS, body(migration=PLAIN | {member: value}))
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_both_storages_are_required(api: Api, index: redis.Redis) -> None:
    answer = api(Role.OPERATOR).post(GROUPS, body(migration={"source": "pool_a"}))
    assert (answer.status_code, answer.json()["field"]) == (400, "migration.target")
