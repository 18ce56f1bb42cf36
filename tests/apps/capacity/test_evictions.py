"""Why blocks are gone, over REST."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
import redis

from apps.capacity.services import reports_ingest
from apps.common.actor import Role
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import codec, gone, homes, keyspace
from tests.apps.capacity.conftest import Report, Write
from tests.apps.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/capacity/evictions/"
RUN = "00000000000000a1"
FAR = -(1 << 62) - 12345
"""Further than a browser's numbers are exact."""


@pytest.fixture
def left(index: redis.Redis, model: InstanceEntry) -> None:
    """Entries as functions of the index write them."""
    stream = keyspace.gone(keyspace.instance(model.number, 0))
    for reason, keys in (
        (gone.trimmed("t1"), [1, 2]),
        (f"reclaim:{RUN}", [FAR, 1]),
        ("reclaim:00000000000000ff", [3]),
        (gone.cleared(1), [4]),
        (gone.REMOVED, [5]),
    ):
        index.xadd(stream, {"w": reason, "k": codec.pack_keys(keys)})


def get(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = api(Role.VIEWER).get(URL, {"instance_id": "model-a", **query})
    assert answer.status_code == 200, answer.json()
    return answer.json()["results"]


def test_why_a_block_is_gone(api: Api, left: None, report: Report) -> None:
    report(RUN)
    reports_ingest()
    (one,) = get(api, key=str(FAR))
    assert one.pop("at")[:4] == time.strftime("%Y", time.gmtime())
    assert one == {
        "key": str(FAR),
        "cause": "reclaim",
        "what": RUN,
        "run_id": RUN,
        "trigger": "watermark",
        "sentence": f"Evicted by reclaim run {RUN} (watermark).",
    }
    newest, before = get(api, key="1")
    assert (newest["cause"], before["cause"], before["what"]) == ("reclaim", "trim", "t1")
    assert datetime.fromisoformat(newest["at"]) >= datetime.fromisoformat(before["at"])
    assert get(api, key="77") == []


def test_what_went_last(api: Api, left: None) -> None:
    shown = get(api)
    assert len(shown) == 7
    assert [one["cause"] for one in shown][:3] == ["remove", "cleared", "reclaim"]
    assert shown[1]["sentence"] == "Nothing may stay on its storage, storage nfs_a."
    assert (shown[2]["what"], shown[2]["run_id"]) == ("00000000000000ff", None), "forgotten by now"
    assert len(get(api, at_most=2)) == 2


def test_what_a_removal_leaves(api: Api, sent: list[str], write: Write) -> None:
    write(range(1, 11))
    trimmed = api(Role.OPERATOR).post("/api/v1/cache/trim/", {"instance_id": "model-a", "strategy": "all"})
    (one,) = get(api, key="7")
    assert (one["cause"], one["what"]) == ("trim", trimmed.json()["id"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"instance_id": ""}, "instance_id"),
        ({"key": "seven"}, "key"),
        ({"key": str(1 << 63)}, "key"),
        ({"at_most": "0"}, "at_most"),
        ({"at_most": "501"}, "at_most"),
        ({"at_most": "-1"}, "at_most"),
    ],
)
def test_bad_requests(api: Api, left: None, query: dict[str, str], field: str) -> None:
    answer = api(Role.VIEWER).get(URL, {"instance_id": "model-a", **query})
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_who_may_what(api: Api, left: None) -> None:
    query = {"instance_id": "model-a"}
    assert api(None).get(URL, query).status_code == 401
    assert api(Role.VIEWER, groups=["other"]).get(URL, query).status_code == 404
    assert api(Role.VIEWER).get(URL, {"instance_id": "other"}).status_code == 404


def test_an_index_elsewhere_has_brought_its_reasons(
    api: Api, index: redis.Redis, model: InstanceEntry, left: None
) -> None:
    before = api(Role.VIEWER).get(URL, {"instance_id": "model-a"}).json()
    index.hset(keyspace.instance(model.number, 0), homes.HOME, "node-b")
    answer = api(Role.VIEWER).get(URL, {"instance_id": "model-a"})
    assert (answer.status_code, answer.json()) == (200, before)
    assert before
