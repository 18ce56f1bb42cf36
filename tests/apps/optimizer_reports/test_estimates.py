"""The round of the online estimate over real streams, and who may see what it finds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
import redis

from apps.common.actor import Actor, Role
from apps.instances.services import group_remove, group_update, instance_remove
from apps.optimizer_reports.live import estimates_narrowed, estimates_picture
from apps.optimizer_reports.services import estimates
from apps.optimizer_reports.services.estimates import capacity_of, estimates_follow, estimates_stop
from apps.optimizer_reports.tasks import follow_traffic
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Quota, ReclaimSettings
from kvcm_platform.index import functions, keyspace, request_switches
from kvcm_platform.index.noted_calls import Noted, sampled
from kvcm_platform.index.request_entries import QUERY, encode_sampled
from kvcm_platform.optimizer.online_form import online_from_bytes
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db
BLOCK = 2048
URL = "/api/v1/optimizer/estimates/"


@pytest.fixture
def chat(index, tmp_path, sent) -> tuple[GroupEntry, InstanceEntry]:
    """A group whose cache holds ten blocks."""
    make_storage(tmp_path)
    group = make_group(quota=Quota(10 * BLOCK), reclaim=ReclaimSettings(used_ratio=1.0)).entry
    return group, make_instance()


class Sender:
    """Puts calls into a group's stream as a metadata process does."""

    def __init__(self, client: redis.Redis, group: GroupEntry, process: str = "metadata:a:1") -> None:
        self.client, self.group, self.process, self.calls = client, group, process, 0

    def send(
        self, owner: InstanceEntry, prompts: Iterable[Sequence[int]], *, hits: int = 0, k: int = 0
    ) -> None:
        noted = [Noted(QUERY, owner, list(keys), None, 0, hits, 2) for keys in prompts]
        self.calls += len(noted)
        entry = encode_sampled(replace(sampled(noted, k), process=self.process, calls=self.calls))
        key = keyspace.sampled_requests(self.group.number)
        self.client.xadd(key, {"h": entry[0], "d": entry[1]})


def test_rates_at_other_capacities_are_told(index, api: Api, chat):
    group, owner = chat
    sender = Sender(index, group)
    # Four prompts of five blocks in turn: 20 blocks are hit again where the cache holds them all.
    prompts = [range(10 * n, 10 * n + 5) for n in range(4)]
    sender.send(owner, prompts, hits=0)
    sender.send(owner, prompts, hits=1)
    assert estimates_follow(client=index) == {"groups": 1, "calls": 8}
    (of_group, of_instance) = api(Role.VIEWER).get(URL).json()["results"]
    assert (of_group["kind"], of_group["instance_group"], of_group["instance_id"]) == ("group", "chat", None)
    assert (of_instance["kind"], of_instance["instance_id"]) == ("instance", "model-a")
    for row in (of_group, of_instance):
        assert (row["asked_blocks"], row["real_hit_blocks"], row["real_hit_rate"]) == (40, 4, 0.1)
        assert [point["factor"] for point in row["points"]] == [0.5, 1.0, 2.0, 4.0]
        assert [point["capacity_bytes"] for point in row["points"]] == [n * BLOCK for n in (5, 10, 20, 40)]
        assert [point["hit_rate"] for point in row["points"]] == [0.0, 0.0, 0.5, 0.5]
        assert [point["unique_blocks"] for point in row["points"]] == [5, 10, 20, 20]
        assert row["window_seconds"] == 900 and row["sampled_ratio"] == 1.0 and not row["has_seen_all"]
    # Nothing new: nothing is counted again.
    assert estimates_follow(client=index)["calls"] == 0
    assert api().get(URL).json()["results"][0]["asked_blocks"] == 40


def test_a_round_carries_on_where_the_last_one_ended(index, chat, monkeypatch):
    """Killed before its state was kept, it counts its calls again; killed after that, it does not."""
    group, owner = chat
    sender = Sender(index, group)
    sender.send(owner, [range(5)])
    estimates_follow(client=index)
    sender.send(owner, [range(5)] * 2)

    def killed(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(estimates, "online_to_bytes", killed)
        with pytest.raises(RuntimeError):
            estimates_follow(client=index)
    with monkeypatch.context() as patch:
        patch.setattr(estimates, "_told", killed)
        with pytest.raises(RuntimeError):
            estimates_follow(client=index)
    estimates_follow(client=index)
    (data,) = map(json.loads, index.hvals(keyspace.ESTIMATES))
    assert data["total"] == {"asked": 15, "real_hits": 0, "hits": [10, 10, 10, 10]}
    assert data["lost_calls"] == 0


def test_one_round_at_a_time(index, chat):
    group, owner = chat
    Sender(index, group).send(owner, [range(5)])
    take = functions.name("kvcm_lease_take")
    estimates_follow(client=index)
    assert index.fcall(take, 1, keyspace.ESTIMATES_LEASE, "other", 60_000)
    Sender(index, group, "metadata:b:1").send(owner, [range(5)])
    assert estimates_follow(client=index) == {"groups": 0, "calls": 0}


def test_processes_are_told_to_sample(index, chat):
    group, owner = chat
    now = round(time.time() * 1000)
    estimates_follow(client=index, now_ms=now)
    switch = request_switches.read_blocking(index).samples[group.number]
    assert switch.k == 0 and switch.until_ms > now + 60_000
    # A process that had to sample less is followed by all.
    Sender(index, group).send(owner, [range(50)], k=13)
    estimates_follow(client=index, now_ms=now)
    assert request_switches.read_blocking(index).samples[group.number].k == 13
    # Long calm: it begins anew at a finer rate.
    for minutes in (1, 62):
        Sender(index, group).send(owner, [range(5)], k=13)
        estimates_follow(client=index, now_ms=now + minutes * 60_000)
    assert request_switches.read_blocking(index).samples[group.number].k == 11
    state = online_from_bytes(index.get(keyspace.estimate_state(group.number)))
    assert state.stack.k == 11 and not len(state.stack.ids)


def test_another_quota_begins_another_window(index, chat, api: Api):
    group, owner = chat
    Sender(index, group).send(owner, [range(5)] * 2)
    estimates_follow(client=index)
    quota = Quota(4 * BLOCK)
    group_update(acting=ADMIN, name="chat", change=lambda settings: replace(settings, quota=quota))
    Sender(index, group, "metadata:b:1").send(owner, [range(5)])
    estimates_follow(client=index)
    row = api().get(URL, {"kind": "group"}).json()["results"][0]
    assert row["capacity_bytes"] == 4 * BLOCK and row["asked_blocks"] == 5
    assert [point["hit_blocks"] for point in row["points"]] == [2, 4, 5, 5]


def test_what_is_lost_or_spoilt_is_counted_or_passed_over(index, chat):
    group, owner = chat
    sender = Sender(index, group)
    sender.send(owner, [range(5)])
    index.xadd(keyspace.sampled_requests(group.number), {"h": "{}", "d": ""})
    sender.calls += 3
    sender.send(owner, [range(5)])
    index.set(keyspace.estimate_state(group.number), b"not a state")
    estimates_follow(client=index)
    (data,) = map(json.loads, index.hvals(keyspace.ESTIMATES))
    assert data["total"]["asked"] == 10 and data["lost_calls"] == 3


def test_groups_and_instances_that_are_gone(index, chat, api: Api):
    group, owner = chat
    Sender(index, group).send(owner, [range(5)])
    estimates_follow(client=index)
    instance_remove(acting=ADMIN, instance_id="model-a")
    Sender(index, group, "metadata:b:1").send(owner, [range(5)])
    estimates_follow(client=index)
    assert [row["kind"] for row in api().get(URL).json()["results"]] == ["group"]
    group_remove(acting=ADMIN, name="chat")
    estimates_follow(client=index)
    assert api().get(URL).json()["count"] == 0
    assert not index.exists(keyspace.estimate_state(group.number))
    assert not request_switches.read_blocking(index).samples


def test_only_ones_own_groups_are_seen(index, chat, api: Api):
    group, owner = chat
    Sender(index, group).send(owner, [range(5)])
    make_group("code")
    other = make_instance("model-b", "code")
    code = next(one for one in estimates.group_entries() if one.name == "code")
    Sender(index, code).send(other, [range(5)])
    estimates_follow(client=index)
    limited = api(Role.VIEWER, {"code"}).get(URL).json()
    assert {row["instance_group"] for row in limited["results"]} == {"code"} and limited["count"] == 2
    client = api()
    assert client.get(URL).json()["count"] == 4
    assert client.get(URL, {"instance_group": "chat"}).json()["count"] == 2
    assert client.get(URL, {"instance_id": "model-b"}).json()["results"][0]["instance_group"] == "code"
    assert client.get(URL, {"kind": "group", "instance_group": "none"}).json()["count"] == 0
    assert client.get(URL, {"kind": "storage"}).json()["field"] == "kind"
    assert api(None).get(URL).status_code == 401
    picture = estimates_picture()
    assert picture["is_complete"] and len(picture["rows"]) == 4
    narrowed = estimates_narrowed(picture, Actor("v", Role.VIEWER, groups=frozenset({"chat"})))
    assert {row["instance_group"] for row in narrowed["rows"]} == {"chat"}


def test_it_can_be_switched_off(index, chat, settings, monkeypatch):
    group, owner = chat
    Sender(index, group).send(owner, [range(5)])
    follow_traffic()
    assert index.hlen(keyspace.ESTIMATES) == 1
    settings.KVCM_ESTIMATES = False
    follow_traffic()
    assert not index.hlen(keyspace.ESTIMATES) and not request_switches.read_blocking(index).samples
    estimates_stop(client=index)


@pytest.mark.parametrize(
    ("reclaim", "expected"),
    [
        (ReclaimSettings(used_ratio=0.8), 800),
        (ReclaimSettings(used_ratio=1.5), 1000),
        (ReclaimSettings(used_ratio=0.0, used_bytes=300), 300),
        (ReclaimSettings(used_ratio=0.0), 1000),
    ],
)
def test_the_capacity_is_what_a_group_holds_at_most(reclaim, expected):
    assert capacity_of(GroupEntry("g", 1, (), Quota(1000), reclaim=reclaim)) == expected
