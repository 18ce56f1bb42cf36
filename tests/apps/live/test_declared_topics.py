"""Topics that apps declare: snapshot first, then what differs, each account its part, alive when quiet."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.utils import timezone

from apps.alerts import live as alerts_live
from apps.alerts.api.serializers import AlertOutput
from apps.alerts.models import Alert, AlertGroup
from apps.common.actor import Actor, Role
from apps.live import consumers, snapshots
from apps.live.access import ticket_issue
from apps.live.layer import LiveLayer
from apps.live.snapshots import SnapshotTopic, snapshot_feed
from apps.live.topics import topics
from tests.factories.objects import make_storage
from tests.support.eventually import eventually_async
from tests.support.websocket import receive_until

SUBSCRIBE = {"op": "subscribe", "topics": ["alerts"]}


@sync_to_async
def fire(subject: str, *groups: str, severity: str = "critical") -> Alert:
    now = timezone.now()
    alert = Alert.objects.create(
        rule_name="disk_hangs",
        condition="disk_hangs",
        subject_kind="storage",
        subject=subject,
        state="firing",
        severity=severity,
        message=f"{subject} hangs.",
        is_of_all_groups=not groups,
        since=now - timedelta(seconds=10),
        last_seen_at=now,
        fired_at=now,
    )
    AlertGroup.objects.bulk_create(AlertGroup(alert=alert, name=name) for name in groups)
    return alert


def shown(message: dict) -> list[tuple[str, list[str] | None]]:
    return [(alert["subject"], alert["groups"]) for alert in message["data"]["firing"]]


async def test_what_fires_comes_first_then_each_turn(connect, account) -> None:
    await fire("nfs_a", severity="warning")
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    snapshot = await socket.receive_json()
    assert (snapshot["topic"], snapshot["kind"], shown(snapshot)) == ("alerts", "snapshot", [("nfs_a", None)])
    began = time.monotonic()
    alert = await fire("nfs_b")
    message = await receive_until(socket, lambda m: len(m["data"]["firing"]) == 2, 20)
    assert time.monotonic() - began < 20
    assert message["kind"] == "change" and message["seq"] > snapshot["seq"]
    # The most severe first.
    assert [subject for subject, _ in shown(message)] == ["nfs_b", "nfs_a"]
    assert message["data"]["counts"] == {"info": 0, "warning": 1, "critical": 1}
    await sync_to_async(Alert.objects.filter(pk=alert.pk).update)(state="resolved")
    message = await receive_until(socket, lambda m: len(m["data"]["firing"]) == 1, 20)
    assert shown(message) == [("nfs_a", None)]


async def test_an_account_limited_to_groups_gets_its_part(connect, account) -> None:
    await fire("everyones")
    await fire("both", "chat", "search")
    await fire("theirs", "search")
    await sync_to_async(account)("robot")
    scoped = Actor(name="robot", role=Role.VIEWER, groups=frozenset({"chat"}))
    socket = await connect(query=f"?token={ticket_issue(acting=scoped)}")
    await socket.send_json(SUBSCRIBE)
    snapshot = await socket.receive_json()
    assert shown(snapshot) == [("both", ["chat"])]
    assert snapshot["data"]["counts"]["critical"] == 1
    await fire("mine", "chat")
    message = await receive_until(socket, lambda m: len(m["data"]["firing"]) == 2, 20)
    assert sorted(shown(message)) == [("both", ["chat"]), ("mine", ["chat"])]


async def test_who_was_limited_meanwhile_gets_its_part_from_then_on(connect, account, monkeypatch) -> None:
    monkeypatch.setattr(consumers, "_RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "QUIET_SECONDS", 0.5)
    await fire("theirs", "search")
    user = await sync_to_async(account)("robot")
    socket = await connect(query=f"?token={ticket_issue(acting=Actor(name='robot', role=Role.VIEWER))}")
    await socket.send_json(SUBSCRIBE)
    assert len(shown(await socket.receive_json())) == 1
    user.groups = ["chat"]
    await sync_to_async(user.save)()
    assert shown(await receive_until(socket, lambda m: not m["data"]["firing"], 20)) == []


async def test_engines_get_nothing(connect, account) -> None:
    socket = await connect(await sync_to_async(account)(role="engine"))
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["code"] == "permission_denied"


async def test_a_quiet_topic_says_that_it_lives(connect, account, monkeypatch) -> None:
    monkeypatch.setattr(snapshots, "QUIET_SECONDS", 0.5)
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    numbers = [(await socket.receive_json())["seq"] for _ in range(4)]
    assert numbers == list(range(numbers[0], numbers[0] + 4))


async def test_a_database_that_is_away_is_said_and_waited_out(connect, account, monkeypatch) -> None:
    is_away = True
    real = alerts_live.alerts_picture

    def picture() -> dict:
        if is_away:
            raise OperationalError("no database")
        return real()

    topic = SnapshotTopic(name="alerts", snapshot=picture, narrowed=alerts_live.narrowed)
    declared = {"alerts": replace(topics()["alerts"], feed=lambda: snapshot_feed(topic))}
    monkeypatch.setattr(consumers, "topics", lambda: declared)
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["code"] == "service_not_ready"
    is_away = False
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["kind"] == "snapshot"


async def test_a_picture_that_fails_once_is_followed_by_others(connect, account, monkeypatch) -> None:
    monkeypatch.setattr(snapshots, "QUIET_SECONDS", 0.5)
    asked = 0

    def picture() -> dict:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise TypeError("a row of another version")
        return {"number": asked}

    topic = SnapshotTopic(name="alerts", snapshot=picture, narrowed=lambda picture, _: picture)
    declared = {"alerts": replace(topics()["alerts"], feed=lambda: snapshot_feed(topic))}
    monkeypatch.setattr(consumers, "topics", lambda: declared)
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    await receive_until(socket, lambda m: m["data"]["number"] > 2, 20)


async def test_nobody_looking_reads_nothing(connect, account, monkeypatch) -> None:
    reads = 0

    def picture() -> dict:
        nonlocal reads
        reads += 1
        return {"n": reads}

    topic = SnapshotTopic(name="counted", snapshot=picture, narrowed=lambda p, _: p, every_seconds=0.5)
    feed = snapshot_feed(topic)
    feed.subscribers += 1
    await eventually_async(lambda: reads > 1)
    feed.subscribers -= 1
    before = reads
    await feed.snapshot()
    await feed.snapshot()
    assert reads <= before + 2
    assert feed.seq >= 1
    await feed.stop()


@pytest.mark.django_db(transaction=True)
def test_the_picture_has_the_members_of_rest(server) -> None:
    members = {"groups", "since"} | set(AlertOutput.Meta.fields)
    alert = Alert(
        rule_name="r",
        condition="c",
        subject_kind="storage",
        subject="s",
        state="firing",
        severity="info",
        message="m",
        since=timezone.now(),
        last_seen_at=timezone.now(),
        is_of_all_groups=True,
    )
    alert.save()
    (form,) = alerts_live.alerts_picture()["firing"]
    assert set(form) == members


async def test_storages_are_pushed(connect, account, tmp_path) -> None:
    await sync_to_async(make_storage)(tmp_path)
    socket = await connect(await sync_to_async(account)())
    await socket.send_json({"op": "subscribe", "topics": ["storages"]})
    snapshot = await socket.receive_json()
    assert [row["name"] for row in snapshot["data"]["storages"]] == ["nfs_a"]
    await sync_to_async(make_storage)(tmp_path, "nfs_b")
    message = await receive_until(socket, lambda m: len(m["data"]["storages"]) == 2, 20)
    assert message["seq"] > snapshot["seq"]


async def test_a_socket_to_which_nothing_is_said_for_long_stays_open(connect, account) -> None:
    socket = await connect(await sync_to_async(account)())
    await asyncio.sleep(LiveLayer.brpop_timeout + 1)  # The layer's wait ended without a message.
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["kind"] == "snapshot"
