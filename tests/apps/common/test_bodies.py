"""Bodies that are too large end before anything keeps them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from apps.common.bodies import BodyLimit

UPLOADS = "/api/v1/optimizer/traces"


@pytest.fixture(autouse=True)
def limits(settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    settings.KVCM_LARGE_BODIES = {UPLOADS: 30}


async def anybody(scope) -> None:
    return None


async def call(
    path: str, pieces: list[bytes], length: bytes | None, judge=anybody
) -> tuple[list[dict[str, Any]], list[Any]]:
    """What was answered, and what the application behind received."""
    received: list[Any] = []
    sent: list[dict[str, Any]] = []
    waiting = [
        {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
        for number, piece in enumerate(pieces)
    ]

    async def application(scope, receive, send) -> None:
        while True:
            message = await receive()
            received.append(message.get("body", message["type"]))
            if not message.get("more_body"):
                return

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", length)]
    await BodyLimit(application, judge)({"path": path, "headers": headers}, receive, send)
    return sent, received


@pytest.mark.parametrize(("path", "most"), [("/api/v1/storages/", 10), (UPLOADS, 30), (f"{UPLOADS}/", 30)])
async def test_a_body_that_says_how_large_it_is(path: str, most: int) -> None:
    body = b"x" * most
    assert await call(path, [body], str(most).encode()) == ([], [body])
    sent, received = await call(path, [body, b"y"], str(most + 1).encode())
    assert received == []
    assert sent[0]["status"] == 413
    assert json.loads(sent[1]["body"])["code"] == "request_too_large"


async def test_one_that_does_not_say_it_is_cut_off() -> None:
    _, received = await call("/", [b"12345", b"67890", b"1", b"2"], None)
    assert received == [b"12345", b"67890", "http.disconnect"]


@pytest.mark.parametrize("length", [b"-1", b"ten", b"1e3"])
async def test_a_length_that_is_none_is_refused(length: bytes) -> None:
    sent, received = await call("/", [b"x"], length)
    assert (sent[0]["status"], received) == (413, [])


async def test_a_large_body_is_received_from_who_may_send_it_alone() -> None:
    async def nobody(scope) -> tuple[int, dict[str, str]]:
        return 401, {"code": "unauthenticated"}

    small, large = b"x" * 10, b"x" * 11
    assert await call(UPLOADS, [small], b"10", nobody) == ([], [small])
    sent, received = await call(UPLOADS, [large], b"11", nobody)
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"], received) == (401, "unauthenticated", [])
    _, received = await call(UPLOADS, [small, b"1", b"2"], None, nobody)
    assert received == [small, "http.disconnect"]


async def test_a_large_body_is_received_where_the_disk_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def upload(room: int) -> int:
        free = SimpleNamespace(free=(256 << 20) + room)
        monkeypatch.setattr("apps.common.bodies.shutil.disk_usage", lambda folder: free)
        sent, _ = await call(UPLOADS, [b"x" * 20], b"20")
        return sent[0]["status"] if sent else 200

    # Once while it comes, once where it belongs.
    assert (await upload(39), await upload(40)) == (409, 200)
