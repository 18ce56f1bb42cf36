"""Usage, history, plans and quotas over REST, from what the index and the history hold."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.common.actor import Role
from apps.common.redis_client import figures_client
from apps.storages.models import Storage
from apps.usage.choices import Kind, Resolution, RowKind, SeriesKey
from apps.usage.live import narrowed, usage_picture
from apps.usage.models import Position, Sample, SecondsChunk, Series
from apps.usage.packing import pack
from apps.usage.selectors.levels import levels_of_all
from apps.usage.selectors.now import RowKey, rows_of
from kvcm_platform.core.growth import Confidence, Growth, State, Trend
from kvcm_platform.core.points import Amounts, Levels, Point
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.types import StorageType
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.group_readings import read_groups
from tests.apps.usage.conftest import NFS, Platform
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
DAY = 86_400


@pytest.fixture
def held(index: redis.Redis, tmp_path: Path):
    """The group `chat` (1,000 bytes, 600 of them on NFS) with 500 held, 50 pending and 20 reserved."""
    storage = make_storage(tmp_path, "nfs_a", capacity_bytes=2000)
    group = make_group(quota=Quota(1000, {StorageType.NFS: 600}))
    other = make_group("other")
    entry = make_instance()
    platform = Platform(index)
    platform.hold(
        f"{entry.number}:0",
        group.row.number,
        **{f"s{storage.number}": (430, 4), f"p{storage.number}": (50, 1), f"w{storage.number}": (20, 1)},
    )
    index.hset(
        keyspace.instance(entry.number, 0),
        mapping={
            **{f"b:{NFS + storage.number}:s": 430, f"n:{NFS + storage.number}:s": 4},
            **{f"b:{NFS + storage.number}:w": 20, f"n:{NFS + storage.number}:w": 1},
        },
    )
    index.hset(keyspace.instance(entry.number, 0), f"b:{NFS + storage.number}:p", 50)
    index.hset(keyspace.group(group.row.number), mapping={"r": 20, "r:4": 20})
    return storage, group, other


def grown(kind: Kind, name: str, slope: float, state: State = State.GROWING) -> Series:
    growth = Growth(Trend(state, slope, slope, slope, 21_600, 73, Confidence.HIGH))
    return Series.objects.create(kind=kind.value, name=name, growth=growth.to_dict())


def test_usage_of_groups_types_and_storages(api, held) -> None:
    grown(Kind.GROUP, "chat", 10.0)
    grown(Kind.STORAGE, "nfs_a", 5.0)
    Storage.objects.update(device_capacity_bytes=10_000, device_used_bytes=9_900)
    answer = api(Role.VIEWER).get("/api/v1/capacity/usage/").json()
    rows = {(row["kind"], row["name"]): row for row in answer["results"]}
    assert list(rows) == [
        ("group", "chat"),
        ("storage_type", "chat"),
        ("group", "other"),
        ("storage", "nfs_a"),
    ]
    chat = rows["group", "chat"]
    held_bytes = {
        "used_bytes": 500,
        "live_bytes": 470,
        "reserved_bytes": 20,
        "pending_bytes": 50,
        "blocks": 5,
    }
    assert {name: chat[name] for name in held_bytes} == held_bytes
    assert (chat["limit_bytes"], chat["high_bytes"], chat["low_bytes"]) == (1000, 800, 750)
    # 800 - 470 to the mark, 1000 - 520 to the limit, at 10 bytes a second.
    assert (chat["seconds_to_high"], chat["seconds_to_full"]) == (33.0, 48.0)
    assert chat["growth"]["state"] == "growing"
    kind = rows["storage_type", "chat"]
    assert (kind["storage_type"], kind["used_bytes"], kind["limit_bytes"], kind["growth"]) == (
        "nfs",
        500,
        600,
        None,
    )
    storage = rows["storage", "nfs_a"]
    assert (storage["used_bytes"], storage["pending_bytes"], storage["reserved_bytes"]) == (500, 50, None)
    # The device has 100 bytes left, less than the 1,500 of the capacity.
    assert (storage["limit_bytes"], storage["device_free_bytes"], storage["seconds_to_full"]) == (
        2000,
        100,
        20.0,
    )
    assert rows["group", "other"]["growth"]["state"] == "unknown"


def test_a_storage_holds_the_same_now_and_in_the_history(held) -> None:
    """20 of its 500 bytes are being written, 50 wait for their deletion."""
    (now,) = rows_of([RowKey(RowKind.STORAGE, "nfs_a")], acting=ADMIN)
    client = figures_client()
    registry = index_registry.read(client)
    then = levels_of_all(registry, read_groups(client, registry.groups))
    assert now.levels == then[SeriesKey(Kind.STORAGE, "nfs_a")]
    assert now.levels == Levels(500, 20, 430, 50, 0, 5, limit_bytes=2000)


def test_usage_is_chosen_ordered_and_paged(api, held) -> None:
    grown(Kind.GROUP, "chat", 1.0)
    grown(Kind.GROUP, "other", 9.0)
    client = api(Role.VIEWER)

    def names(query: str) -> list[str]:
        return [row["name"] for row in client.get(f"/api/v1/capacity/usage/?{query}").json()["results"]]

    assert names("kind=group") == ["chat", "other"]
    assert names("kind=group&kind=storage&ordering=-bytes_per_second") == ["other", "chat", "nfs_a"]
    assert names("search=CHA&kind=group") == ["chat"]
    assert names("name=nfs_a") == ["nfs_a"]
    page = client.get("/api/v1/capacity/usage/?page_size=1&page=2").json()
    assert (page["count"], [row["kind"] for row in page["results"]]) == (4, ["storage_type"])
    assert client.get("/api/v1/capacity/usage/?kind=planet").status_code == 400


def test_the_number_of_queries_does_not_grow(api, held, tmp_path) -> None:
    client = api(Role.VIEWER)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/api/v1/capacity/usage/").status_code == 200
        return len(captured)

    queries()  # the first one also notes that the token was used
    before = queries()
    for number in range(20):
        make_group(f"g{number}")
        make_storage(tmp_path, f"s{number}")
    assert queries() == before


def test_without_the_index_limits_and_trends_are_shown(api, held, settings) -> None:
    grown(Kind.GROUP, "chat", 10.0)
    client = api(Role.VIEWER)
    settings.KVCM_REDIS_URL = "unix:///nowhere/at/all.sock"
    row = client.get("/api/v1/capacity/usage/?name=chat&kind=group").json()["results"][0]
    assert (row["used_bytes"], row["limit_bytes"], row["growth"]["bytes_per_second"]) == (None, None, 10.0)
    quota = client.get("/api/v1/quotas/?instance_group=chat").json()["results"][0]
    assert (quota["limit_bytes"], quota["used_bytes"]) == (1000, None)


def test_quotas(api, held) -> None:
    answer = api(Role.VIEWER).get("/api/v1/quotas/").json()
    whole = {"limit_bytes": 1000, "used_bytes": 500, "reserved_bytes": 20, "pending_bytes": 50}
    empty = {"used_bytes": 0, "reserved_bytes": 0, "pending_bytes": 0}
    assert answer["results"] == [
        {"instance_group": "chat", "storage_type": None, **whole},
        {"instance_group": "chat", "storage_type": "nfs", **whole, "limit_bytes": 600},
        {"instance_group": "other", "storage_type": None, "limit_bytes": 1_000_000, **empty},
    ]
    assert answer["count"] == 3
    only = api(Role.VIEWER).get("/api/v1/quotas/?storage_type=nfs").json()["results"]
    assert [row["limit_bytes"] for row in only] == [600]
    assert api(Role.VIEWER).get("/api/v1/quotas/?instance_group=&storage_type=").json() == answer
    refused = api(Role.VIEWER).get("/api/v1/quotas/?storage_type=disk")
    assert (refused.status_code, refused.json()["field"]) == (400, "storage_type")


def test_an_account_limited_to_groups_sees_these(api, held) -> None:
    client = api(Role.VIEWER, groups=["other"])
    names = {row["name"] for row in client.get("/api/v1/capacity/usage/").json()["results"]}
    assert names == {"other", "nfs_a"}
    assert {row["instance_group"] for row in client.get("/api/v1/quotas/").json()["results"]} == {"other"}
    assert {row["name"] for row in client.get("/api/v1/capacity/plan/?kind=group").json()["results"]} == {
        "other"
    }
    Series.objects.create(kind=Kind.INSTANCE.value, name="model-a", group_name="chat")
    for query, status in (
        ("kind=group&name=other", 200),
        ("kind=storage&name=nfs_a", 200),
        ("kind=group&name=chat", 404),
        ("kind=instance&name=model-a", 404),
        ("kind=platform", 403),
        ("kind=group&name=nobody", 404),
    ):
        assert client.get(f"/api/v1/capacity/usage/history/?{query}").status_code == status, query
    picture = usage_picture()
    assert {row["name"] for row in narrowed(picture, ADMIN)["rows"]} == {"chat", "other", "nfs_a"}


@pytest.mark.parametrize(
    "path", ["capacity/usage/", "capacity/usage/history/?kind=platform", "capacity/plan/", "quotas/"]
)
def test_strangers_see_nothing(api, path) -> None:
    assert api(None).get(f"/api/v1/{path}").status_code == 401


def test_history_of_instances_that_moved(api, held) -> None:
    """One that came back in another group has a history of each; who sees one group sees that one."""
    # Half past a minute, so that an hour touches 61 of them whenever this runs.
    now = int(timezone.now().timestamp()) // 60 * 60 - 30
    for group, used in (("chat", 10), ("other", 20)):
        own = Series.objects.create(kind=Kind.INSTANCE.value, name="model-a", group_name=group)
        point = Point(now - 30, Levels(used_bytes=used), used, Amounts(3, 4, 1))
        SecondsChunk.objects.create(series=own, at=point.at, points=pack([point], point.at))
    Position.objects.create(pk=1, seconds_done=now, facts_id="")
    begin, end = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" for at in (now - 3600, now))
    path = f"/api/v1/capacity/usage/history/?kind=instance&name=model-a&from={begin}&to={end}"
    answer = api(Role.VIEWER).get(path).json()
    assert [series["instance_group"] for series in answer["series"]] == ["chat", "other"]
    mine = api(Role.VIEWER, groups=["other"]).get(path).json()["series"]
    assert [series["instance_group"] for series in mine] == ["other"]
    assert sum(mine[0]["columns"]["requests"]) == 3
    assert 20 in mine[0]["columns"]["used_bytes"] and 10 not in mine[0]["columns"]["used_bytes"]
    assert len(answer["at"]) == len(mine[0]["columns"]["requests"]) == 61
    assert (answer["step_seconds"], answer["resolution_seconds"]) == (60, 60)


def test_history_of_what_there_is_none(api, held) -> None:
    answer = api(Role.VIEWER).get("/api/v1/capacity/usage/history/?kind=group&name=chat").json()
    assert answer["series"] == []


FROM = "kind=group&name=chat&from="


@pytest.mark.parametrize(
    "query",
    [
        "kind=planet",
        "kind=group&name=chat&step=0",
        f"{FROM}2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        f"{FROM}2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&step=3600",
        "kind=group&name=chat&to=0001-01-01T00:00:00Z",
        f"{FROM}0001-01-01T00:00:00Z&to=0001-01-01T01:00:00Z&step=7776000",
        f"{FROM}9999-12-31T00:00:00Z&to=9999-12-31T23:59:59Z",
        "kind=group&" + "&".join(f"name=n{n}" for n in range(21)),
    ],
)
def test_wishes_that_are_refused(api, held, query) -> None:
    assert api(Role.VIEWER).get(f"/api/v1/capacity/usage/history/?{query}").status_code == 400


def test_plan_over_a_week(api, held) -> None:
    """A group of 1,000 bytes that grew by 72 bytes a day for five days: 500 now, 2,660 in 30 days."""
    now = int(timezone.now().timestamp())
    hour = now - now % 3600
    own = grown(Kind.GROUP, "chat", 99.0)
    for n in range(120):
        size = 500 - 3 * (120 - n)
        Sample.objects.create(
            series=own, resolution=Resolution.HOUR, at=hour - 3600 * (120 - n), blocks=0,
            **{f"{name}_bytes": 0 for name in ("writing", "pending", "reserved")},
            used_bytes=size, serving_bytes=size, peak_bytes=size,
        )  # fmt: skip
    Position.objects.create(pk=1, seconds_done=now, facts_id="", minutes_done=hour, hours_done=hour)
    rows = {
        row["name"]: row
        for row in api(Role.VIEWER).get("/api/v1/capacity/plan/?horizon_days=30").json()["results"]
    }
    assert set(rows) == {"chat", "other", "nfs_a"}
    chat = rows["chat"]
    assert chat["growth"]["bytes_per_second"] == pytest.approx(3 / 3600)
    advised = chat["advice"]
    # 520 counted now (20 reserved), 3 an hour for 720 hours, at 80 %.
    assert (advised["expected_bytes"], advised["needed_bytes"], advised["add_bytes"]) == (2680, 3350, 2350)
    assert "too little history" in rows["nfs_a"]["advice"]["sentence"]
    assert api(Role.VIEWER).get("/api/v1/capacity/plan/?horizon_days=0").status_code == 400


def test_live_picture_is_that_of_rest(api, held) -> None:
    rest = api(Role.VIEWER).get("/api/v1/capacity/usage/").json()["results"]
    assert usage_picture() == {"rows": rest, "is_complete": True}
