"""What no database keeps and no answer can say is refused at the door, and never a fault of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from apps.common.actor import Role
from tests.apps.conftest import Api
from tests.factories.objects import make_storage

pytestmark = pytest.mark.django_db(transaction=True)
STORAGES = "/api/v1/storages/"


def mooncake(**spec: Any) -> dict[str, Any]:
    members = {
        "local_hostname": "localhost",
        "metadata_connstring": "http://127.0.0.1:1/metadata",
        "protocol": "tcp",
        "master_service_entry": "127.0.0.1:1",
    }
    return {"name": "moon", "type": "mooncake", "enabled": False, "spec": {**members, **spec}}


def post(client: Any, path: str, json: bytes) -> Any:
    return client.generic("POST", path, json, content_type="application/json")


@pytest.mark.parametrize("escape", [rb"\ud800", rb"\u0000", rb"a\udfffb"])
def test_a_spec_that_could_not_be_shown(index: redis.Redis, api: Api, escape: bytes) -> None:
    client = api()
    body = b'{"name": "moon", "type": "mooncake", "enabled": false, "spec": {"local_hostname": "%s",' % escape
    body += b'"metadata_connstring": "http://m", "protocol": "tcp", "master_service_entry": "m:1"}}'
    answer = post(client, STORAGES, body)
    said = answer.json()
    assert (answer.status_code, said["code"], said["field"]) == (
        400,
        "invalid_argument",
        "spec.local_hostname",
    )
    shown = client.get(STORAGES)
    assert (shown.status_code, shown.json()["count"]) == (200, 0)


def test_a_choice_that_could_not_be_repeated(index: redis.Redis, api: Api) -> None:
    for path in (STORAGES, "/api/v1/storages/bulk/", "/api/v1/alert-rules/", "/api/v1/cache/migrations/"):
        answer = post(api(), path, rb'{"type": "\ud800", "action": "\ud800", "severity": "\ud800"}')
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


def test_other_characters_pass(index: redis.Redis, api: Api) -> None:
    hostname = "名前\U0001f600\tx"
    made = api().post(STORAGES, mooncake(local_hostname=hostname))
    assert (made.status_code, made.json()["spec"]["local_hostname"]) == (201, hostname)


@pytest.mark.parametrize("kind", ["storages", "instance-groups", "alert-rules", "instances"])
def test_a_nul_in_an_address(index: redis.Redis, api: Api, kind: str) -> None:
    answer = api().get(f"/api/v1/{kind}/a%00b/")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer["X-Request-ID"]


def test_a_nul_in_a_query(index: redis.Redis, api: Api) -> None:
    answer = api().get("/api/v1/cache/migrations/preview/?instance_group=%00")
    said = answer.json()
    assert (answer.status_code, said["code"], said["field"]) == (400, "invalid_argument", "instance_group")


def test_a_version_of_many_digits(index: redis.Redis, api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    answer = api().patch(f"{STORAGES}nfs_a/", {"weight": 1}, HTTP_IF_MATCH="9" * 6000)
    assert (answer.status_code, answer.json()["field"]) == (400, "version")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("storages/nfs_a/health-samples/?until=0001-01-01T00:00:00Z", "until"),
        ("health/incidents/?since=0001-01-01T00:00:00%2B14:00", "since"),
        ("health/incidents/?until=9999-12-31T23:59:59-14:00", "until"),
        ("events/?since=0001-01-01T00:00:00%2B14:00", "since"),
    ],
)
def test_the_ends_of_time(index: redis.Redis, api: Api, tmp_path: Path, path: str, field: str) -> None:
    make_storage(tmp_path)
    answer = api(Role.VIEWER).get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["field"]) == (400, field)
