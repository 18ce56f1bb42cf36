"""Where the agents are: lists, names, and a discovery service, none of which may hang the caller."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kvcm_platform.core.pool_addresses import split_address, split_domain
from kvcm_platform.transfer.pool_discovery import DiscoveryError, PoolSpec, agent_addresses


@contextmanager
def discovery(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/agents"
        server.shutdown()


def saying(body: bytes, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize("address", ["a:1", "10.0.0.1:7800", "[::1]:7800", "x.y-z_1.local:65535"])
def test_addresses(address: str) -> None:
    assert f"{split_address(address)[0]}:{split_address(address)[1]}" == address


@pytest.mark.parametrize(
    "address",
    ["", "a", "a:", ":1", "a:0", "a:65536", "::1:7800", "http://a:1", "a:1/x", "a b:1", "u@a:1", "a:-1"],
)
def test_no_addresses(address: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|addresses"):
        split_domain(address)


def test_a_list_is_taken_as_it_is() -> None:
    assert agent_addresses(PoolSpec("a:1, b:2,a:1,")) == ["a:1", "b:2"]


def test_one_name_stands_for_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: int, **_: object) -> list[object]:
        assert (host, port) == ("pool.local", 7800)
        four = [(socket.AF_INET, 1, 6, "", (f"10.0.0.{at}", port)) for at in (1, 2, 1)]
        return [(socket.AF_INET6, 1, 6, "", ("fd00::1", port, 0, 0)), *four]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert agent_addresses(PoolSpec("pool.local:7800")) == ["10.0.0.1:7800", "10.0.0.2:7800"]
    assert agent_addresses(PoolSpec("10.1.1.1:7800")) == ["10.1.1.1:7800"]


def test_a_name_that_is_none() -> None:
    with pytest.raises(DiscoveryError, match="cannot be resolved|did not come"):
        agent_addresses(PoolSpec("nowhere.invalid:7800", seconds=5))


@pytest.mark.parametrize("host", ["x" * 64, "a..b"])
def test_a_name_that_no_resolver_takes(host: str) -> None:
    with pytest.raises(DiscoveryError):
        agent_addresses(PoolSpec(f"{host}:7800", seconds=5))


def test_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: gone.wait(30) and [])
    started = time.monotonic()
    with pytest.raises(DiscoveryError, match="within 0.2 s"):
        agent_addresses(PoolSpec("pool.local:7800", seconds=0.2))
    assert time.monotonic() - started < 15
    gone.set()


def test_a_service_goes_before_the_list() -> None:
    with discovery(saying(json.dumps(["c:3", "d:4", "c:3"]).encode())) as url:
        assert agent_addresses(PoolSpec("a:1", url)) == ["c:3", "d:4"]


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[]", 200), (b"{}", 200), (b"[1]", 200), (b'["a"]', 200), (b"no JSON", 200), (b'["a:1"]', 500)],
)
def test_a_service_that_says_nothing_of_use(body: bytes, status: int) -> None:
    with discovery(saying(body, status)) as url, pytest.raises(DiscoveryError, match="service_discovery_url"):
        agent_addresses(PoolSpec("a:1", url))


def test_a_service_that_answers_byte_by_byte() -> None:
    gone = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not gone.wait(0.05):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    with discovery(drip) as url, pytest.raises(DiscoveryError, match="within 0.5 s"):
        agent_addresses(PoolSpec("a:1", url, seconds=0.5))
    gone.set()


def test_a_service_that_is_away() -> None:
    with pytest.raises(DiscoveryError):
        agent_addresses(PoolSpec("a:1", "http://127.0.0.1:1/"))
