"""Trims over REST: what the preview counts is what goes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from apps.audit.models import AuditEntry
from apps.capacity.services import trims
from apps.common.actor import Role
from apps.common.queue import DUTIES_TASK
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import homes, keyspace
from tests.apps.capacity.conftest import BLOCK, Held, Write
from tests.apps.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/cache/trim/"
EARLY, LATE = range(1, 31), range(101, 151)
ALL = [*EARLY, *LATE]


def now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def post(api: Api, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = api(Role.OPERATOR).post(URL, {"instance_id": "model-a", **body}, format="json")
    return answer.status_code, answer.json()


@pytest.fixture
def between(write: Write) -> datetime:
    """A moment after EARLY was written and before LATE was."""
    write(EARLY)
    time.sleep(0.05)
    moment = now()
    time.sleep(0.05)
    write(LATE)
    return moment


@pytest.mark.parametrize("is_early", [True, False])
def test_a_span_of_time(
    api: Api, sent: list[str], index: redis.Redis, held: Held, between: datetime, is_early: bool
) -> None:
    span = {"end" if is_early else "begin": between.isoformat()}
    going, staying = (EARLY, LATE) if is_early else (LATE, EARLY)
    status, shown = post(api, strategy="written", **span, dry_run=True)
    assert (status, shown["blocks"], shown["bytes"]) == (200, len(going), len(going) * BLOCK)
    assert shown["by_storage"] == [{"storage": "nfs_a", "blocks": len(going), "bytes": len(going) * BLOCK}]
    assert (shown["is_complete"], shown["instance_group"]) == (True, "chat")
    assert shown["sentence"].startswith(f"{len(going)} blocks of instance model-a would go: ")
    assert (held(ALL), sent, index.exists(keyspace.TRIMS)) == (ALL, [], 0), "nothing changed"
    status, done = post(api, strategy="written", **span)
    assert (status, done["blocks"], done["is_complete"]) == (202, shown["blocks"], True)
    assert held(ALL) == list(staying)
    assert sent == [DUTIES_TASK]
    assert not index.exists(keyspace.TRIMS)
    assert int(index.hget(keyspace.COUNTERS, "model-a|removed_blocks")) == len(going)


@pytest.mark.parametrize("strategy", ["all", "all_meta"])
def test_everything(api: Api, sent: list[str], write: Write, held: Held, strategy: str) -> None:
    write(EARLY)
    assert post(api, strategy=strategy, dry_run=True)[1]["blocks"] == 30
    assert post(api, strategy=strategy)[1]["blocks"] == 30
    assert held(EARLY) == []
    again = post(api, strategy=strategy, dry_run=True)[1]
    assert (again["blocks"], again["sentence"]) == (0, "Nothing of instance model-a would go.")


def test_it_is_audited(api: Api, sent: list[str], write: Write) -> None:
    write(EARLY)
    until = now()
    post(api, strategy="written", end=until.isoformat())
    entry = AuditEntry.objects.get(action="cache.trim")
    assert (entry.object_kind, entry.object_name) == ("instance_group", "chat")
    assert entry.after == {"instance_id": "model-a", "strategy": "written", "end": until.isoformat()}


def test_a_long_one_goes_on_in_the_background(
    api: Api, sent: list[str], index: redis.Redis, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays on record, with how far it came, for the duties."""
    for first in range(1, 1200, 400):
        write(range(first, first + 400))
    monkeypatch.setattr(trims, "INLINE_SECONDS", -1.0)
    status, done = post(api, strategy="all")
    assert (status, done["is_complete"]) == (202, False)
    assert 0 < done["blocks"] < 1200
    assert index.hexists(keyspace.TRIMS, done["id"])
    assert sent == [DUTIES_TASK]


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"strategy": "old"}, 400, "strategy"),
        ({"instance_id": "other"}, 404, "instance_id"),
        ({"strategy": "all", "begin": "2026-01-01T00:00:00Z"}, 400, "begin"),
        ({"begin": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, 400, "begin"),
        ({"begin": "soon"}, 400, "begin"),
        ({"dryrun": True}, 400, "dryrun"),
    ],
)
def test_bad_requests(
    api: Api,
    sent: list[str],
    write: Write,
    held: Held,
    change: dict[str, Any],
    status: int,
    field: str,
) -> None:
    write(EARLY)
    answer = post(api, **{"strategy": "written", **change})
    assert (answer[0], answer[1]["field"]) == (status, field)
    assert held(EARLY) == list(EARLY)


def test_an_index_elsewhere_is_not_trimmed_from_here(
    api: Api, sent: list[str], index: redis.Redis, model: InstanceEntry
) -> None:
    index.hset(keyspace.instance(model.number, 0), homes.HOME, "node-b")
    status, body = post(api, strategy="all")
    assert (status, body["code"]) == (400, "unsupported")
    assert "is in a metadata process" in body["message"]
    assert not AuditEntry.objects.filter(action="cache.trim").exists(), "nothing was trimmed"


def test_who_may_what(api: Api, sent: list[str], write: Write, held: Held) -> None:
    write(EARLY)
    body = {"instance_id": "model-a", "strategy": "all"}
    assert api(None).post(URL, body).status_code == 401
    assert api(Role.VIEWER).post(URL, body).status_code == 403
    assert api(Role.OPERATOR, groups=["other"]).post(URL, body).status_code == 404
    assert held(EARLY) == list(EARLY)


def test_a_span_in_the_future_takes_nothing(api: Api, sent: list[str], write: Write, held: Held) -> None:
    write(EARLY)
    begin = (now() + timedelta(hours=1)).isoformat()
    assert post(api, strategy="written", begin=begin)[1]["blocks"] == 0
    assert held(EARLY) == list(EARLY)
