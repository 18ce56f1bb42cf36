"""Storages over REST (docs/api.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common.actor import Role
from apps.storages.models import Storage
from kvcm_platform.core.types import StorageType
from tests.apps.conftest import Api
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
STORAGES = "/api/v1/storages/"
MEMBERS = {
    *("name", "number", "type", "spec", "enabled", "draining", "weight", "capacity_bytes"),
    *(
        "high_watermark_ratio",
        "low_watermark_ratio",
        "maintenance_note",
        "health",
        "usage",
        "groups",
        "orphans",
    ),
    *("leaving", "abandoned", "departure", "segments", "orphans"),
    *("version", "created_at", "updated_at", "check_storage_available_when_open"),
}


def nfs(root: Path, name: str = "nfs_a", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "nfs", "spec": {"root_path": str(root / name)}, **more}


def test_from_create_to_delete(api: Api, index: redis.Redis, tmp_path: Path) -> None:
    client = api(Role.OPERATOR)
    made = client.post(STORAGES, nfs(tmp_path, capacity_bytes=1 << 40, maintenance_note="new"))
    assert (made.status_code, set(made.json())) == (201, MEMBERS)
    assert made.json()["health"]["state"] == "ok"
    assert made.json()["usage"] == {"used_bytes": 0, "pending_bytes": 0, "blocks": 0}
    make_group()
    got = client.get(f"{STORAGES}nfs_a/").json()
    assert (got["groups"], got["spec"]) == (
        ["chat"],
        {"root_path": f"{tmp_path}/nfs_a/", "key_count_per_file": 1},
    )
    changed = client.patch(f"{STORAGES}nfs_a/", {"enabled": False, "weight": None, "version": 1}).json()
    assert (changed["enabled"], changed["version"], changed["maintenance_note"]) == (False, 2, "new")
    held = client.delete(f"{STORAGES}nfs_a/")
    assert (held.status_code, held.json()["code"]) == (409, "in_use")
    assert client.delete(f"{STORAGES}nfs_a/?force=true").status_code == 204
    assert client.get(f"{STORAGES}nfs_a/").status_code == 404


def test_versions(api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    client = api(Role.OPERATOR)
    address = f"{STORAGES}nfs_a/"
    stale = client.patch(address, {"draining": True, "version": 4})
    assert (stale.status_code, stale.json()["code"], stale.json()["field"]) == (
        409,
        "version_conflict",
        "version",
    )
    assert client.patch(address, {"draining": True}, HTTP_IF_MATCH='"4"').status_code == 409
    assert client.patch(address, {"draining": True}, HTTP_IF_MATCH='"1"').status_code == 200
    assert client.patch(address, {"draining": True}, HTTP_IF_MATCH="abc").json()["field"] == "version"
    assert client.patch(address, {"draining": False}).json()["version"] == 3


def test_bad_values(api: Api, tmp_path: Path) -> None:
    client = api(Role.OPERATOR)
    for body, field in (
        ({"name": "x", "type": "nfs"}, "spec"),
        ({**nfs(tmp_path), "type": "tape"}, "type"),
        ({**nfs(tmp_path), "name": ""}, "name"),
        ({**nfs(tmp_path), "spec": {}}, "spec.root_path"),
        ({**nfs(tmp_path), "weight": -1}, "weight"),
        ({**nfs(tmp_path), "low_watermark_ratio": 0.9, "high_watermark_ratio": 0.8}, "low_watermark_ratio"),
    ):
        answer = client.post(STORAGES, body)
        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (
            400,
            "invalid_argument",
            field,
        )
    assert client.put(f"{STORAGES}x/", {}).status_code == 405


def test_roles(api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    assert api(Role.ENGINE).get(STORAGES).status_code == 403
    viewer = api(Role.VIEWER)
    assert viewer.get(STORAGES).status_code == 200
    denied = viewer.patch(f"{STORAGES}nfs_a/", {"draining": True})
    assert (denied.status_code, denied.json()["code"]) == (403, "permission_denied")
    assert "operator" in denied.json()["message"]
    scoped = api(Role.OPERATOR, groups=["chat"])
    assert scoped.patch(f"{STORAGES}nfs_a/", {"draining": True}).status_code == 403


def test_pages_order_search_and_filters(api: Api, tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        make_storage(tmp_path, name, weight=ord(name))
    make_storage(tmp_path, "off", is_enabled=False)
    client = api(Role.VIEWER)

    def names(query: str) -> list[str]:
        return [row["name"] for row in client.get(STORAGES + query).json()["results"]]

    assert names("") == ["a", "b", "c", "off"]
    assert names("?ordering=-weight&page_size=2&enabled=true") == ["c", "b"]
    assert names("?search=of") == ["off"]
    assert names("?enabled=false") == ["off"]
    page = client.get(f"{STORAGES}?page=2&page_size=3").json()
    assert (page["count"], page["next"], len(page["results"])) == (4, None, 1)
    assert client.get(f"{STORAGES}?page=9").status_code == 404
    assert client.get(f"{STORAGES}?type=tape").status_code == 400


def test_number_of_queries_is_constant(api: Api, index: redis.Redis, tmp_path: Path) -> None:
    client = api(Role.VIEWER)
    counts = []
    for number in range(6):
        make_storage(tmp_path, f"s{number}")
        make_group(f"g{number}", storage_candidates=(f"s{number}",))
        client.get(STORAGES)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert len(client.get(STORAGES).json()["results"]) == number + 1
        counts.append(len(queries))
    assert counts == [5] * 6, "token, count, page, segments, groups"


def test_usage_is_null_without_redis(api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    answer = api(Role.VIEWER).get(f"{STORAGES}nfs_a/")
    assert (answer.status_code, answer.json()["usage"]) == (200, None)


def test_health_changes(api: Api, tmp_path: Path) -> None:
    make_storage(tmp_path)
    found = api(Role.VIEWER).get(f"{STORAGES}nfs_a/health-changes/").json()
    assert [row["is_available"] for row in found["results"]] == [True]
    assert api(Role.VIEWER).get(f"{STORAGES}nobody/health-changes/").status_code == 404


def test_who_is_limited_to_groups_reads_no_names_of_others(
    api: Api, index: redis.Redis, tmp_path: Path
) -> None:
    make_storage(tmp_path)
    make_group()
    make_group("search")
    assert api(Role.VIEWER).get(f"{STORAGES}nfs_a/").json()["groups"] == ["chat", "search"]
    limited = api(Role.VIEWER, groups=["chat"])
    assert limited.get(f"{STORAGES}nfs_a/").json()["groups"] == ["chat"]
    assert limited.get(STORAGES).json()["results"][0]["groups"] == ["chat"]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"name":' * 50_000])
def test_a_body_nested_too_deeply_is_the_callers_mistake(api: Api, text: str) -> None:
    answer = api().post("/api/v1/storages/", text, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


def test_a_search_of_many_words_is_refused(api: Api) -> None:
    answer = api().get("/api/v1/storages/", {"search": " ".join(f"w{n}" for n in range(2000))})
    assert (answer.status_code, answer.json()["field"]) == (400, "search")
    assert api().get("/api/v1/storages/", {"search": "a b c"}).status_code == 200


def test_unknown_members_are_refused_by_name(api: Api, tmp_path: Path) -> None:
    client = api(Role.OPERATOR)
    refused = client.post(STORAGES, nfs(tmp_path, wieght=3))
    assert (refused.status_code, refused.json()["field"]) == (400, "wieght")
    make_storage(tmp_path)
    refused = client.patch(f"{STORAGES}nfs_a/", {"enabeld": False, "name": "b"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_argument")
    assert {error["field"] for error in refused.json()["errors"]} == {"enabeld", "name"}
    assert client.get(f"{STORAGES}nfs_a/").json()["version"] == 1


def test_a_password_in_a_spec_is_hidden_and_kept(api: Api, tmp_path: Path) -> None:
    secret = "redis://user:hunter2@10.0.0.1:6379/0"  # noqa: S105 - what must not be shown
    spec = {"mountpoint": str(tmp_path), "root_dir": "kv", "remote_host": "h", "remote_port": 1}
    client = api(Role.OPERATOR)
    body = {"name": "v", "type": "vcns_hf3fs", "spec": {**spec, "meta_storage_uri": secret}, "enabled": False}
    shown = client.post(STORAGES, body).json()["spec"]
    assert shown["meta_storage_uri"] == "redis://user:••••@10.0.0.1:6379/0"
    changed = client.patch(f"{STORAGES}v/", {"spec": {**shown, "remote_port": 2}}).json()
    assert "hunter2" not in str(changed)
    stored = Storage.objects.get(name="v").spec
    assert (stored["meta_storage_uri"], stored["remote_port"]) == (secret, 2)


def test_types_say_what_a_form_needs(api: Api) -> None:
    page = api(Role.VIEWER).get("/api/v1/storage-types/").json()
    types = {found["type"]: found for found in page["results"]}
    assert (page["count"], set(types)) == (6, {kind.value for kind in StorageType})
    members = {found["name"]: found for found in types["vcns_hf3fs"]["spec"]}
    assert members["remote_port"] == {
        **{"name": "remote_port", "label": "Remote port", "help": "", "kind": "number", "required": True},
        **{"default": 0, "minimum": 1, "maximum": 65535, "choices": [], "unit": "", "example": "9000"},
        **{"secret": False, "locating": False},
    }
    assert (members["touch_file_when_create"]["kind"], members["mountpoint"]["kind"]) == ("flag", "path")
    assert (members["meta_storage_uri"]["secret"], members["mountpoint"]["locating"]) == (True, True)
    assert "touch_file_when_create" not in {found["name"] for found in types["nfs"]["spec"]}
    assert types["mooncake"]["spec"][2]["choices"][0] == {"value": "tcp", "label": "TCP"}
    assert types["nfs"]["capabilities"]["needs_mount"]
    assert not types["dummy"]["capabilities"]["needs_mount"]
    assert (types["nfs"]["scheme"], types["tair_mempool"]["scheme"]) == ("file", "pace")
