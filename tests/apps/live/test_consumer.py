"""The live socket with a real Valkey below: who gets in, what is sent, how soon."""

from __future__ import annotations

import time

import pytest
from asgiref.sync import sync_to_async

from apps.common.actor import Actor, Role
from apps.live import access, consumers
from apps.live.access import ticket_issue
from tests.support.websocket import receive_until

SUBSCRIBE = {"op": "subscribe", "topics": ["overview"]}


async def test_a_snapshot_comes_first_then_changes_that_follow_on(connect, account, happen) -> None:
    await sync_to_async(happen)(10, 5)
    socket = await connect(await sync_to_async(account)())
    assert socket.is_open
    await socket.send_json(SUBSCRIBE)
    snapshot = await socket.receive_json()
    assert (snapshot["topic"], snapshot["kind"]) == ("overview", "snapshot")
    assert snapshot["data"]["requested_blocks"] == 10
    assert snapshot["data"]["totals"]["hit_blocks"] == 5
    assert snapshot["data"]["verdict"] == {"state": "ok", "reasons": []}
    assert isinstance(snapshot["data"]["history"], list)

    numbers = [snapshot["seq"]]
    for _ in range(3):
        message = await socket.receive_json()
        assert message["kind"] == "change" and "history" not in message["data"]
        numbers.append(message["seq"])
    assert numbers == list(range(numbers[0], numbers[0] + 4))


async def test_a_fact_is_shown_within_a_second(connect, account, happen) -> None:
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    await socket.receive_json()
    latencies = []
    for requested in (7, 14, 21):
        began = time.monotonic()
        await sync_to_async(happen)(7, 3)
        message = await receive_until(socket, lambda m, n=requested: m["data"]["requested_blocks"] == n, 20)
        latencies.append(time.monotonic() - began)
    # The first picture may be due at once; a busy machine may delay one of them.
    assert sorted(latencies)[1] < 1.0
    assert message["data"]["hit_blocks"] == 9
    assert message["data"]["rpcs"][0]["name"] == "GetCacheLocation"


async def test_at_most_two_pictures_a_second(connect, account, happen) -> None:
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    await socket.receive_json()
    began = time.monotonic()
    arrivals = []
    while (now := time.monotonic()) < began + 3:
        await sync_to_async(happen)(1, 1)
        if not await socket.receive_nothing(timeout=0.05):
            await socket.receive_json()
            arrivals.append(now)
    assert 2 <= len(arrivals) <= 7


async def test_nothing_comes_after_unsubscribing(connect, account, happen) -> None:
    socket = await connect(await sync_to_async(account)())
    await socket.send_json(SUBSCRIBE)
    await socket.receive_json()
    await socket.send_json({"op": "unsubscribe", "topics": ["overview"]})
    await socket.send_json({"op": "subscribe", "topics": ["nothing"]})
    await receive_until(socket, lambda message: message["kind"] == "error", 20)
    await sync_to_async(happen)(1, 1)
    assert await socket.receive_nothing(timeout=2.5)


async def test_nobody_gets_in_without_an_account(connect) -> None:
    assert not (await connect()).is_open


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost.evil.example", "null"])
async def test_a_foreign_page_gets_in_nowhere(connect, account, origin: str) -> None:
    user = await sync_to_async(account)()
    assert not (await connect(user, origin=origin)).is_open


async def test_a_script_without_an_origin_gets_in_with_what_it_brings(connect, account) -> None:
    assert (await connect(await sync_to_async(account)(), origin="")).is_open
    assert not (await connect(origin="")).is_open


async def test_a_ticket_opens_a_socket_for_a_minute(connect, account, monkeypatch) -> None:
    await sync_to_async(account)("robot", "operator")
    query = f"?token={ticket_issue(acting=Actor(name='robot', role=Role.VIEWER))}"
    socket = await connect(query=query)
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["kind"] == "snapshot"

    monkeypatch.setattr(access, "TICKET_SECONDS", -1)
    assert not (await connect(query=query)).is_open
    assert not (await connect(query="?token=made-up")).is_open


async def test_an_account_limited_to_groups_gets_no_sums_over_all(connect, account) -> None:
    """Neither by its session, nor by a ticket of a token with a scope of its own."""
    session = await connect(await sync_to_async(account)("olga", groups=["chat"]))
    await sync_to_async(account)("robot")
    scoped = Actor(name="robot", role=Role.VIEWER, groups=frozenset({"chat"}))
    ticket = await connect(query=f"?token={ticket_issue(acting=scoped)}")
    for socket in (session, ticket):
        await socket.send_json(SUBSCRIBE)
        answer = await socket.receive_json()
        assert (answer["kind"], answer["code"]) == ("error", "permission_denied")
        assert "limited to some" in answer["message"]


async def test_who_was_limited_to_groups_meanwhile_gets_no_more(connect, account, monkeypatch) -> None:
    monkeypatch.setattr(consumers, "_RECHECK_SECONDS", 0.0)
    user = await sync_to_async(account)("robot")
    socket = await connect(query=f"?token={ticket_issue(acting=Actor(name='robot', role=Role.VIEWER))}")
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["kind"] == "snapshot"
    user.groups = ["chat"]
    await sync_to_async(user.save)()
    answer = await receive_until(socket, lambda message: message["kind"] == "error", 20)
    assert answer["code"] == "permission_denied"


async def test_an_engines_ticket_does_not_become_a_viewers(connect, account) -> None:
    await sync_to_async(account)("robot", "viewer")
    ticket = ticket_issue(acting=Actor(name="robot", role=Role.ENGINE))
    assert not (await connect(query=f"?token={ticket}")).is_open


@pytest.mark.parametrize(
    ("role", "topic", "code"),
    [("viewer", "nothing", "not_found"), ("engine", "overview", "permission_denied")],
)
async def test_a_refused_topic_says_why(connect, account, role: str, topic: str, code: str) -> None:
    socket = await connect(await sync_to_async(account)(role=role))
    await socket.send_json({"op": "subscribe", "topics": [topic]})
    answer = await socket.receive_json()
    assert (answer["topic"], answer["kind"], answer["code"]) == (topic, "error", code)
    assert answer["message"]


@pytest.mark.parametrize(
    "text",
    ["no json", "[]", "[" * 50_000, '{"op": "dance", "topics": []}', '{"op": "subscribe", "topics": 3}'],
)
async def test_a_message_that_makes_no_sense_is_answered(connect, account, text: str) -> None:
    socket = await connect(await sync_to_async(account)())
    await socket.send_text(text)
    assert (await socket.receive_json())["code"] == "invalid_argument"
    await socket.send_json(SUBSCRIBE)
    assert (await socket.receive_json())["kind"] == "snapshot"


async def test_who_was_disabled_meanwhile_gets_no_more(connect, account, happen, monkeypatch) -> None:
    monkeypatch.setattr(consumers, "_RECHECK_SECONDS", 0.0)
    user = await sync_to_async(account)()
    socket = await connect(user)
    await socket.send_json(SUBSCRIBE)
    await socket.receive_json()
    user.is_active = False
    await sync_to_async(user.save)()
    answer = await receive_until(socket, lambda message: message["kind"] == "error", 20)
    assert answer["code"] == "unauthenticated"
    await sync_to_async(happen)(1, 1)
    assert await socket.receive_nothing(timeout=2.5)
