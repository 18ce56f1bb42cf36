"""Clients that mean harm, over real sockets against a real process: what they get, and what they cost."""

from __future__ import annotations

import socket
import struct
import time

import grpc
import pytest

from kvcm_platform.pb import meta_service_pb2 as pb
from tests.bench.measure import cpu_seconds
from tests.grpc.test_meta_service import code, locate
from tests.unit.fast.wire import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST,
    SETTINGS,
    Caller,
    frame,
    hello,
    message,
    rst,
    settings,
    window,
)

from .adversary import Adversary
from .served import PATH, served
from .waiting import until

METHOD = "/kv_cache_manager.proto.meta.MetaService/GetClusterInfo"
CALM = 11
CPU_SECONDS = 2.0
"""What one flood may cost the process until it is sent away; a call costs about 30 millionths of it."""


def resets(streams: int) -> bytes:
    caller = Caller()
    return b"".join(
        caller.call(stream, b"", (":path", METHOD)) + rst(stream) for stream in range(1, 2 * streams, 2)
    )


def empty_headers(streams: int) -> bytes:
    caller = Caller()
    return b"".join(caller.headers(stream, (":path", METHOD)) for stream in range(1, 2 * streams, 2))


def malformed(streams: int) -> bytes:
    caller = Caller()
    return b"".join(caller.headers(stream, ("te", "gzip")) for stream in range(1, 2 * streams, 2))


OPEN = Caller().headers(1, (":path", METHOD)) + frame(DATA, 0, 1, message(bytes(60_000))[:5])


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"", frame(PING, 0, 0, bytes(8)) * 1000),
        (b"", settings() * 1000),
        (b"", settings((4, 1), (4, 70_000)) * 1000),
        (b"", frame(SETTINGS, ACK, 0) * 1000),
        (b"", window(0, 1) * 1000),
        (b"", frame(PRIORITY, 0, 3, bytes(5)) * 1000),
        (b"", frame(0x42, 0, 0, b"") * 1000),
        (OPEN, frame(DATA, 0, 1) * 1000),
        (OPEN, frame(DATA, 0, 1, b"x") * 1000),
        (OPEN, window(1, 1) * 1000),
        (Caller().headers(1, flags=0), frame(CONTINUATION, 0, 1) * 1000),
        (Caller().headers(1, flags=0), frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 500) * 10),
        (resets(20_000), b""),
        (empty_headers(20_000), b""),
        (malformed(20_000), b""),
        (b"", frame(HEADERS, END_HEADERS, 1, b"\x40\x01a\x7f\x81\x1d" + b"v" * 4000 + b"\xbe" * 12_000)),
    ],
    ids=[
        *("ping", "settings", "windows by settings", "settings acks", "window", "priority", "unknown"),
        *("empty data", "data of one byte", "stream window", "empty continuation", "continuation"),
        *("rapid reset", "headers without end", "malformed headers", "header bomb"),
    ],
)
def test_floods_are_sent_away_and_cost_little(process, stub, keys, first, again):
    before = cpu_seconds(process.process.pid)
    with Adversary(process.rpc_port) as client:
        client.flood(first, len(first)) if not again else client.send(first)
        if again:
            client.flood(again)
        assert client.is_cut_off()
        if client.reader.goaways:
            assert client.reader.goaways[-1][1] == CALM
    assert cpu_seconds(process.process.pid) - before < CPU_SECONDS
    assert code(locate(stub, keys)) == "OK"


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (1, frame(DATA, 0, 0, b"x")),
        (1, frame(HEADERS, END_HEADERS, 2, Caller().block())),
        (1, frame(CONTINUATION, 0, 1, b"")),
        (1, frame(5, END_HEADERS, 1, bytes(4))),
        (6, frame(RST, 0, 1, bytes(3))),
        (6, frame(PING, 0, 0, bytes(9))),
        (6, struct.pack(">I", 1 << 23)[1:] + struct.pack(">BBI", DATA, 0, 1)),
        (9, frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff")),
        (3, window(0, 0x7FFFFFFF)),
    ],
)
def test_goaway_arrives_before_the_end(process, error, sent):
    with Adversary(process.rpc_port) as client:
        client.send(sent + bytes(100_000))
        assert client.is_cut_off()
        assert [found for _, found in client.reader.goaways] == [error]


def test_another_protocol_is_cut_off(process):
    for sent in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 64,
    ):
        with Adversary(process.rpc_port, greet=False) as client:
            client.send(sent)
            assert client.is_cut_off()


def test_who_says_nothing_is_cut_off():
    with served(preface_seconds=1) as endpoint:
        for sent in (b"", PREFACE[:5], PREFACE, hello() + frame(HEADERS, 0, 1, Caller().block())):
            with Adversary(endpoint.port, greet=False) as client:
                client.send(sent)
                assert client.is_cut_off()


def test_a_client_that_never_reads_is_not_kept_and_holds_up_nobody():
    """Windows are wide open, but the socket is full: answers pile up to a bound, then the connection ends."""
    with (
        served(stall_seconds=2, max_queued_bytes=1 << 20, max_running=4) as endpoint,
        Adversary(endpoint.port, (4, 0x7FFFFFFF), receive_bytes=4096) as client,
    ):
        client.send(window(0, 0x7FFFFFFF - 65_535))
        for stream in range(1, 401, 2):
            client.send(client.caller.call(stream, b"1000000", (":path", PATH + "Large")))
        until(lambda: bool(endpoint.server._peers))
        (peer,) = endpoint.server._peers
        # It is as full as it gets once the server reads no more of what was sent.
        time.sleep(0.5)
        assert peer._connection._outflow.queued_bytes < 5 << 20
        with grpc.insecure_channel(endpoint.address) as channel:
            assert channel.unary_unary(PATH + "Call")(b"on", timeout=30) == b"on"
        until(lambda: peer not in endpoint.server._peers)


def test_a_slow_reader_gets_everything():
    with served() as endpoint, Adversary(endpoint.port, (4, 0x7FFFFFFF), receive_bytes=4096) as client:
        client.send(window(0, 0x7FFFFFFF - 65_535))
        for stream in range(1, 21, 2):
            client.send(client.caller.call(stream, b"300000", (":path", PATH + "Large")))
        time.sleep(0.5)
        for stream in range(1, 21, 2):
            assert client.answer(stream).message == bytes(300_000)


def test_closed_windows_stall_a_stream_only():
    with served(stall_seconds=1) as endpoint, Adversary(endpoint.port, (4, 0)) as client:
        client.send(client.caller.call(1, b"never read") + client.caller.call(3, b"read") + window(3, 100))
        assert client.answer(3).message == b"read"
        assert client.answer(1).reset == 8
        client.ping()


def test_a_frame_a_byte_at_a_time(process):
    with Adversary(process.rpc_port, greet=False) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = pb.GetClusterInfoRequest(trace_id="t").SerializeToString()
        for byte in hello() + client.caller.call(1, request, (":path", METHOD)):
            client.send(bytes([byte]))
        answer = pb.GetClusterInfoResponse.FromString(client.answer(1).message)
        assert answer.header.status.code == pb.OK


def test_a_message_that_is_no_protobuf(process):
    with Adversary(process.rpc_port) as client:
        client.send(client.caller.call(1, b"\xff\xff\xff", (":path", METHOD)))
        assert client.answer(1).status == 13


def test_many_connections_come_and_go(process):
    before = cpu_seconds(process.process.pid)
    for _ in range(200):
        client = Adversary(process.rpc_port)
        client.send(client.caller.call(1, b"", (":path", METHOD))[:-3])
        client.close()
    with Adversary(process.rpc_port) as client:
        client.ping()
    assert cpu_seconds(process.process.pid) - before < CPU_SECONDS
