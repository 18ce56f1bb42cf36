"""Webhooks: real HTTP over loopback, in order, tried again, bounded in time, number and reach."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.utils import timezone

from apps.alerts import webhook
from apps.alerts.models import AlertDelivery, AlertReceiver
from apps.alerts.services import (
    ReceiverSettings,
    deliver,
    deliveries_send,
    outbox,
    receiver_add,
    receiver_remove,
    receiver_test,
)
from apps.alerts.services.outbox import delivery_queue
from apps.alerts.webhook import Outcome, may_call, networks, post
from apps.audit.models import AuditEntry
from apps.common.actor import Role
from kvcm_platform.settings import env
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN

pytestmark = pytest.mark.django_db(transaction=True)
RECEIVERS = "/api/v1/alert-receivers"
LOOPBACK = networks("127.0.0.0/8")


class Hook:
    """A receiver on loopback that notes what it gets and answers with `status`."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.status = 200
        self.said = b"oops"
        self.meanwhile: Callable[[], object] = lambda: None
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((dict(self.headers), json.loads(body)))
                hook.meanwhile()
                self.send_response(hook.status)
                if hook.status == 302:
                    self.send_header("Location", hook.url)
                self.send_header("Content-Length", str(len(hook.said)))
                self.end_headers()
                self.wfile.write(hook.said)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?team=kv"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that lets webhooks go to loopback."""
    monkeypatch.setattr(deliver, "networks", lambda _: LOOPBACK)


def receiver(url: str, name: str = "pager", **changes: Any) -> AlertReceiver:
    return receiver_add(acting=ADMIN, name=name, settings=ReceiverSettings(url=url, **changes))


def queue(to: AlertReceiver, count: int = 1) -> None:
    for _ in range(count):
        delivery_queue(to, event="firing", at=timezone.now())


def told() -> list[tuple[str, int]]:
    return [(each.state, each.attempts) for each in AlertDelivery.objects.order_by("id")]


def test_a_message_with_its_secret(hook: Hook, reachable: None) -> None:
    queue(receiver(hook.url, secret_header="X-Hook-Secret", secret="s3cret"))
    assert deliveries_send().sent == 1
    ((headers, body),) = hook.got
    assert headers["X-Hook-Secret"] == "s3cret" and headers["Content-Type"] == "application/json"
    assert body["event"] == "firing" and body["delivery"] == AlertDelivery.objects.get().pk
    assert told() == [("sent", 1)] and AlertDelivery.objects.get().status == 200
    assert deliveries_send().sent == 0


def test_failures_are_tried_again_later_and_given_up(hook: Hook, reachable: None) -> None:
    hook.status = 503
    queue(receiver(hook.url), 2)
    waits = []
    for _ in range(deliver.ATTEMPTS_AT_MOST):
        before = timezone.now()
        deliveries_send()
        first = AlertDelivery.objects.order_by("id")[0]
        waits.append((first.due_at - before).total_seconds())
        AlertDelivery.objects.filter(pk=first.pk).update(due_at=timezone.now())
    assert all(later > earlier * 1.5 for earlier, later in zip(waits[:5], waits[1:6], strict=True)), waits
    # The second one waited for the first, and went out with its end.
    assert told() == [("failed", deliver.ATTEMPTS_AT_MOST), ("queued", 1)]
    assert "503" in AlertDelivery.objects.order_by("id")[0].error
    hook.status = 200
    AlertDelivery.objects.update(due_at=timezone.now())
    deliveries_send()
    assert told()[1] == ("sent", 2)


def test_one_that_waits_is_not_overtaken(hook: Hook, reachable: None) -> None:
    to = receiver(hook.url)
    queue(to, 2)
    AlertDelivery.objects.filter(pk=AlertDelivery.objects.order_by("id")[0].pk).update(
        due_at=timezone.now() + timedelta(minutes=1)
    )
    deliveries_send()
    assert hook.got == []


def test_a_sender_that_died_leaves_its_message_to_the_next(hook: Hook, reachable: None) -> None:
    class Killed(BaseException):
        pass

    def die(_: AlertDelivery) -> Outcome:
        raise Killed

    queue(receiver(hook.url))
    with pytest.raises(Killed):
        deliveries_send(send=die)
    assert deliveries_send().sent == 0, "another may still be sending it"
    claimed = AlertDelivery.objects.get()
    assert claimed.due_at > timezone.now() + timedelta(seconds=5)
    AlertDelivery.objects.update(due_at=timezone.now())
    assert deliveries_send().sent == 1


def test_two_senders_never_send_the_same_one(hook: Hook, reachable: None) -> None:
    queue(receiver(hook.url), 20)
    from django.db import connection

    def send() -> None:
        try:
            deliveries_send()
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deliveries_send()
    ids = [body["delivery"] for _, body in hook.got]
    assert len(ids) == len(set(ids)) == 20


def test_a_slow_receiver_keeps_no_other_waiting(hook: Hook, reachable: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = receiver(f"http://127.0.0.1:{silent.getsockname()[1]}/", "slow", timeout_seconds=0.5)
        queue(slow, 5)
        queue(receiver(hook.url), 3)
        began = time.monotonic()
        report = deliveries_send()
        assert time.monotonic() - began < 20
        assert (report.sent, report.postponed) == (3, 1)


def test_the_queue_of_a_receiver_is_bounded(reachable: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "QUEUE_AT_MOST", 2)
    queue(receiver("http://127.0.0.1:9/"), 3)
    assert [state for state, _ in told()] == ["queued", "queued", "dropped"]


def test_a_removed_receiver_takes_its_queue_along(reachable: None) -> None:
    queue(receiver("http://127.0.0.1:9/"))
    receiver_remove(acting=ADMIN, name="pager")
    assert told() == [] and deliveries_send().failed == 0


def test_one_that_sends_byte_after_byte_is_cut_off() -> None:
    """Each single wait is short; their sum is bounded all the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def drip() -> None:
            connected, _ = server.accept()
            with connected:
                for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
                    if stop.wait(0.05):
                        return
                    try:
                        connected.sendall(bytes([byte]))
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        outcome = post(url, {}, headers={}, timeout=0.5, allowed=LOOPBACK)
        stop.set()
        thread.join()
    assert not outcome.is_sent and outcome.error
    assert time.monotonic() - began < 20


def test_a_redirect_is_not_followed(hook: Hook) -> None:
    hook.status = 302
    outcome = post(hook.url, {}, headers={}, timeout=2, allowed=LOOPBACK)
    assert (outcome.is_sent, outcome.status, len(hook.got)) == (False, 302, 1)


@pytest.mark.parametrize(
    ("address", "allowed", "may"),
    [
        ("93.184.216.34", "", True),
        ("2606:2800:220:1::1", "", True),
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("10.1.2.3", "", False),
        ("169.254.169.254", "", False),
        ("fe80::1%eth0", "", False),
        ("0.0.0.0", "", False),  # noqa: S104
        ("224.0.0.1", "", False),
        ("::ffff:127.0.0.1", "", False),
        ("::127.0.0.1", "", False),
        ("64:ff9b::7f00:1", "", False),
        ("64:ff9b:1::a00:1", "", False),
        ("2002:7f00:1::1", "", False),
        ("fec0::1", "", False),
        ("64:ff9b::7f00:1", "64:ff9b::/96", True),
        ("10.1.2.3", "10.1.0.0/16", True),
        ("10.2.2.3", "10.1.0.0/16, ::1/128", False),
        ("::ffff:10.1.2.3", "10.1.0.0/16", True),
    ],
)
def test_where_webhooks_may_go(address: str, allowed: str, may: bool) -> None:
    assert may_call(address, networks(allowed)) is may


def test_a_name_that_leads_inside_is_not_called(hook: Hook) -> None:
    outcome = post(hook.url.replace("127.0.0.1", "localhost"), {}, headers={}, timeout=2)
    assert not outcome.is_sent and "KVCM_WEBHOOK_NETWORKS" in outcome.error
    assert hook.got == []


def test_the_address_that_was_checked_is_the_one_called(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that gives another answer the second time gains nothing."""
    asked: list[str] = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(webhook.socket, "getaddrinfo", resolve)
    port = hook.server.server_port
    outcome = post(f"http://pager.example:{port}/", {}, headers={}, timeout=2, allowed=LOOPBACK)
    assert outcome.is_sent and asked[0] == "pager.example" and asked.count("pager.example") == 1
    assert hook.got[0][0]["Host"] == f"pager.example:{port}"


def test_a_name_that_no_host_can_have() -> None:
    outcome = post(f"http://{'a' * 70}.example/", {}, headers={}, timeout=2)
    assert not outcome.is_sent and "no name of a host" in outcome.error


def test_what_a_receiver_says_can_be_stored(hook: Hook, reachable: None) -> None:
    hook.status, hook.said = 500, b"\x00\x1b["
    queue(receiver(hook.url))
    deliveries_send()
    (delivery,) = AlertDelivery.objects.all()
    assert (delivery.attempts, delivery.error) == (1, "500 Internal Server Error:   [")


def test_a_test_is_sent_once_however_slow(hook: Hook, reachable: None) -> None:
    """A worker that comes by while the receiver takes its time leaves the message alone."""
    pager = receiver(hook.url)
    hook.meanwhile = deliveries_send
    receiver_test(acting=ADMIN, name=pager.name)
    deliveries_send()
    assert [body["event"] for _, body in hook.got] == ["test"]


def test_messages_from_before_the_clock_went_back(hook: Hook, reachable: None) -> None:
    pager = receiver(hook.url)
    ahead = timezone.now() + timedelta(hours=5)
    delivery_queue(pager, event="test", at=ahead)
    assert deliveries_send().sent == 1


def test_networks_are_checked_at_start() -> None:
    with pytest.raises(env.BadSetting, match="KVCM_WEBHOOK_NETWORKS"):
        env.Env({"KVCM_WEBHOOK_NETWORKS": "10.0.0.0/99"})


def test_over_rest_for_admins_and_without_the_secret(api: Api, hook: Hook, reachable: None) -> None:
    admin = api(Role.ADMIN)
    body = {"name": "pager", "url": hook.url, "secret_header": "X-Token", "secret": "s3cret"}
    made = admin.post(f"{RECEIVERS}/", body)
    assert made.status_code == 201
    assert made.json()["has_secret"] is True and "secret" not in made.json()
    assert api(Role.OPERATOR).get(f"{RECEIVERS}/").status_code == 403
    assert api(Role.ADMIN, groups=["chat"]).get(f"{RECEIVERS}/").status_code == 403
    changed = admin.patch(f"{RECEIVERS}/pager/", {"least_severity": "critical", "version": 1}).json()
    assert (changed["least_severity"], changed["has_secret"], changed["version"]) == ("critical", True, 2)
    assert admin.patch(f"{RECEIVERS}/pager/", {"enabled": False, "version": 1}).status_code == 409
    answer = admin.post(f"{RECEIVERS}/pager/test/").json()
    assert (answer["state"], answer["status"], answer["event"]) == ("sent", 200, "test")
    assert hook.got[0][0]["X-Token"] == "s3cret"
    hook.status = 500
    failed = admin.post(f"{RECEIVERS}/pager/test/").json()
    assert (failed["state"], failed["error"]) == ("failed", "500 Internal Server Error: oops")
    log = admin.get(f"{RECEIVERS}/pager/deliveries/").json()
    assert [row["state"] for row in log["results"]] == ["failed", "sent"]
    assert admin.delete(f"{RECEIVERS}/pager/").status_code == 204
    assert admin.get(f"{RECEIVERS}/pager/").status_code == 404
    texts = [f"{entry.before} {entry.after}" for entry in AuditEntry.objects.all()]
    assert not any("s3cret" in text for text in texts)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "ftp://a/"}, "url"),
        ({"url": "http:///x"}, "url"),
        ({"url": "http://user:pw@a/"}, "url"),
        ({"url": "http://a:99999/"}, "url"),
        ({"url": "http://a/ b"}, "url"),
        ({"secret_header": "Bad Header"}, "secret_header"),
        ({"secret_header": "Host"}, "secret_header"),
        ({"secret": "a\r\nX: b"}, "secret"),
        ({"timeout_seconds": 31}, "timeout_seconds"),
        ({"least_severity": "loud"}, "least_severity"),
        ({"name": "a b"}, "name"),
    ],
)
def test_a_bad_receiver_names_its_field(api: Api, change: dict, field: str) -> None:
    answer = api(Role.ADMIN).post(f"{RECEIVERS}/", {"name": "pager", "url": "https://a.example/", **change})
    assert (answer.status_code, answer.json()["field"]) == (400, field)
