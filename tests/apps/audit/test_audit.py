"""Audit entries: in the transaction of the act, without secrets, readable by those who may."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from apps.audit.masking import masked
from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.storages.models import Storage
from apps.storages.services import storage_update
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": "x", "name": "y"}, {"password": "••••", "name": "y"}),
        ({"uri": "redis://user:secret@host/0"}, {"uri": "redis://user:••••@host/0"}),
        ({"uri": "redis://:secret@host"}, {"uri": "redis://:••••@host"}),
        ({"url": "https://a.example/services/T/s3"}, {"url": "https://a.example/••••"}),
        ({"url": "https://a.example?key=s3"}, {"url": "https://a.example?••••"}),
        ({"url": "https://a.example"}, {"url": "https://a.example"}),
        ({"a": [{"auth_token": "x"}]}, {"a": [{"auth_token": "••••"}]}),
        ({"root_path": "/a/b@c:d"}, {"root_path": "/a/b@c:d"}),
        (None, None),
    ],
)
def test_secrets_are_masked(value: object, expected: object) -> None:
    assert masked(value) == expected


def test_only_what_changed_is_noted(tmp_path: Path) -> None:
    make_storage(tmp_path)
    storage_update(acting=ADMIN, name="nfs_a", settings={"weight": 3})
    entry = AuditEntry.objects.get(action="storage.update")
    assert (entry.actor, entry.before, entry.after) == ("ada", {"weight": None}, {"weight": 3})


def test_entry_and_act_stand_or_fall_together(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        make_storage(tmp_path)
        raise RuntimeError
    assert not Storage.objects.exists()
    assert not AuditEntry.objects.exists()


def test_who_and_from_where(api: Api) -> None:
    answer = api(Role.OPERATOR).post(
        "/api/v1/instance-groups/",
        {"name": "chat", "storage_candidates": ["a"], "quota": {"capacity_bytes": 1}},
        HTTP_X_REQUEST_ID="r-1",
    )
    assert answer.status_code == 201
    entry = AuditEntry.objects.get(action="group.create")
    assert (entry.actor, entry.token_name, entry.address, entry.request_id) == (
        "operator-0",
        "test",
        "127.0.0.1",
        "r-1",
    )


def test_reading_the_log(api: Api) -> None:
    make_group("chat")
    make_group("search")
    assert api(Role.VIEWER).get("/api/v1/audit-entries/").status_code == 403
    operator = api(Role.OPERATOR)
    found = operator.get("/api/v1/audit-entries/?object_kind=instance_group&ordering=id").json()
    assert [row["object_name"] for row in found["results"]] == ["chat", "search"]
    assert operator.post("/api/v1/audit-entries/", {}).status_code == 405
    scoped = api(Role.OPERATOR, groups=["chat"])
    assert [row["object_name"] for row in scoped.get("/api/v1/audit-entries/").json()["results"]] == ["chat"]
