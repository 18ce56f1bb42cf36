"""Real grpcio clients against the endpoint: sizes, concurrency, windows, deadlines, cancellation, drain."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.unit.fast import wire

from .adversary import Adversary
from .served import PATH, Served, served
from .waiting import until

SECONDS = 20
UNLIMITED = [("grpc.max_receive_message_length", -1)]
SMALL_WINDOWS = [
    ("grpc.http2.lookahead_bytes", 1024),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.max_frame_size", 16_384),
]


@pytest.fixture(params=["uvloop", "asyncio"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as running:
        yield running


def method(channel: grpc.Channel, name: str = "Call") -> grpc.UnaryUnaryMultiCallable:
    return channel.unary_unary(PATH + name)


@pytest.mark.parametrize("options", [[], SMALL_WINDOWS], ids=["usual windows", "small windows"])
def test_messages_of_all_sizes(endpoint, options):
    with grpc.insecure_channel(endpoint.address, options=[*UNLIMITED, *options]) as channel:
        call = method(channel)
        for size in (0, 1, 5, 16_378, 16_379, 16_380, 65_530, 65_535, 100_000, 3_000_000):
            message = bytes(range(256)) * (size // 256) + bytes(size % 256)
            assert call(message, timeout=SECONDS) == message


def test_many_concurrent_streams(endpoint):
    async def run() -> None:
        async with grpc.aio.insecure_channel(endpoint.address) as channel:
            call = channel.unary_unary(PATH + "Call")
            messages = [b"%d" % number for number in range(2000)]
            assert await asyncio.gather(*(call(message, timeout=SECONDS) for message in messages)) == messages

    asyncio.run(run())


def test_large_answers_to_many_streams_with_small_windows(endpoint):
    with grpc.insecure_channel(endpoint.address, options=[*UNLIMITED, *SMALL_WINDOWS]) as channel:
        call = method(channel, "Large")
        futures = [call.future(b"1000000", timeout=60) for _ in range(40)]
        assert {len(future.result()) for future in futures} == {1_000_000}


def test_gzip_requests(endpoint):
    with grpc.insecure_channel(endpoint.address) as channel:
        for message in (b"a" * 100, bytes(3_000_000)):
            assert method(channel, "Call")(message[:4_000_000], compression=grpc.Compression.Gzip) == message
        with pytest.raises(grpc.RpcError) as caught:
            method(channel)(b"a" * 1000, compression=grpc.Compression.Deflate)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_gzip_bomb_is_refused_within_the_limit():
    with served(max_message_bytes=1 << 20) as endpoint, grpc.insecure_channel(endpoint.address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            method(channel)(bytes(200 << 20), compression=grpc.Compression.Gzip, timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(gzip.compress(bytes(200 << 20), 1)) < 1 << 20


def test_deadlines_cancel_the_handler(endpoint):
    with grpc.insecure_channel(endpoint.address) as channel:
        began = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            method(channel, "Slow")(b"10", timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert time.monotonic() - began < 8
        until(lambda: endpoint.cancelled == 1)
        assert method(channel, "Slow")(b"0.1", timeout=SECONDS) == b"0.1"


def test_the_servers_own_clock_enforces_deadlines(endpoint):
    """A raw client that does not look at its clock is told."""
    with Adversary(endpoint.port) as client:
        client.send(client.caller.call(1, b"10", (":path", PATH + "Slow"), ("grpc-timeout", "100m")))
        assert client.answer(1).status == 4
        until(lambda: endpoint.cancelled == 1)
        client.send(client.caller.call(3, b"10", (":path", PATH + "Slow"), ("grpc-timeout", "0n")))
        assert client.answer(3).status == 4
        assert endpoint.begun == 1


def test_cancellation_reaches_the_handler(endpoint):
    with grpc.insecure_channel(endpoint.address) as channel:
        future = method(channel, "Slow").future(b"10")
        until(lambda: endpoint.begun == 1)
        future.cancel()
        until(lambda: endpoint.cancelled == 1)
        assert method(channel)(b"on", timeout=SECONDS) == b"on"


def test_a_client_that_vanishes_cancels_its_calls(endpoint):
    client = Adversary(endpoint.port)
    client.send(client.caller.call(1, b"10", (":path", PATH + "Slow")))
    until(lambda: endpoint.begun == 1)
    client.close()
    until(lambda: endpoint.cancelled == 1)


def test_a_call_cancelled_before_it_ran_leaves_nothing(endpoint):
    with Adversary(endpoint.port) as client:
        for stream in range(1, 201, 2):
            client.send(client.caller.call(stream, b"10", (":path", PATH + "Slow")) + wire.rst(stream))
        client.send(client.caller.call(301, b"on"))
        assert client.answer(301).message == b"on"
    (peers,) = [endpoint.server._peers]
    until(lambda: not peers)
    assert endpoint.begun == endpoint.cancelled


def test_unforeseen_errors_are_unknown(endpoint):
    with grpc.insecure_channel(endpoint.address) as channel, pytest.raises(grpc.RpcError) as caught:
        method(channel, "Failing")(b"")
    assert caught.value.code() is grpc.StatusCode.UNKNOWN


def test_the_caller_is_known(endpoint):
    with grpc.insecure_channel(endpoint.address) as channel:
        method(channel)(b"", metadata=[("authorization", "Bearer a"), ("x-request-id", "1")])
        method(channel)(b"", metadata=[("x-request-id", "2")])
    assert [caller.authorization for caller in endpoint.callers] == ["Bearer a", ""]
    assert {caller.address for caller in endpoint.callers} == {"127.0.0.1"}


def test_drain_loses_no_call(endpoint):
    """Clients go on calling while the server stops: what was begun is finished, the rest is UNAVAILABLE."""
    stopped = threading.Event()
    with grpc.insecure_channel(endpoint.address) as channel, ThreadPoolExecutor(1) as pool:
        slow = [method(channel, "Slow").future(b"1", timeout=30) for _ in range(50)]
        until(lambda: endpoint.begun == 50)

        answered: list[bytes] = []

        def keep_calling() -> None:
            while not stopped.is_set():
                try:
                    answered.append(method(channel)(b"x", timeout=SECONDS))
                except grpc.RpcError as error:
                    assert error.code() is grpc.StatusCode.UNAVAILABLE
                    assert "GOAWAY" not in (error.details() or "")
                    break

        busy = pool.submit(keep_calling)
        until(lambda: len(answered) > 10)
        began = time.monotonic()
        endpoint.run(endpoint.server.stop(40))
        assert time.monotonic() - began < 20
        stopped.set()
        busy.result(SECONDS)
        assert set(answered) == {b"x"}
        assert [future.result(SECONDS) for future in slow] == [b"1"] * 50
        assert (endpoint.finished, endpoint.cancelled) == (50, 0)


def test_the_grace_ends(endpoint):
    with grpc.insecure_channel(endpoint.address) as channel:
        future = method(channel, "Slow").future(b"30")
        until(lambda: endpoint.begun == 1)
        began = time.monotonic()
        endpoint.run(endpoint.server.stop(0.5))
        assert time.monotonic() - began < 15
        assert future.exception(SECONDS) is not None
        assert future.code() is grpc.StatusCode.UNAVAILABLE
        until(lambda: endpoint.cancelled == 1)


def test_an_idle_connection_is_sent_away_and_comes_back():
    with served(idle_seconds=1) as endpoint, grpc.insecure_channel(endpoint.address) as channel:
        assert method(channel)(b"1", timeout=SECONDS) == b"1"
        peers = endpoint.server._peers
        until(lambda: not peers, 10)
        assert method(channel)(b"2", timeout=SECONDS) == b"2"


def test_connections_are_limited():
    with served(max_connections=3) as endpoint:
        clients = [Adversary(endpoint.port) for _ in range(3)]
        for client in clients:
            client.ping()
        late = Adversary(endpoint.port)
        assert late.is_cut_off()
        clients[0].close()
        until(lambda: len(endpoint.server._peers) == 2)
        with Adversary(endpoint.port) as again:
            again.ping()
        for client in clients[1:]:
            client.close()
