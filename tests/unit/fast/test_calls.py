"""Calls through the frame machine: what a request may look like, and what is answered."""

from __future__ import annotations

import gzip
import struct

import pytest

from .machine import Machine
from .wire import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PRIORITIZED,
    PRIORITY,
    RST,
    frame,
    message,
)

INVALID_ARGUMENT, EXHAUSTED, UNIMPLEMENTED, INTERNAL = 3, 8, 12, 13


def test_a_call_is_echoed():
    machine = Machine().call(1, b"hello").call(3, b"")
    first, second = machine.reader.answers[1], machine.reader.answers[3]
    assert (first.message, first.status, first.headers[":status"]) == (b"hello", 0, "200")
    assert first.headers["content-type"] == "application/grpc"
    assert (second.message, second.is_ended) == (b"", True)


def test_the_greeting_names_the_limits():
    kind, _, stream, payload = Machine(greet=False, max_streams=7).flush().reader.frames[0]
    assert (kind, stream) == (4, 0)
    values = dict(struct.iter_unpack(">HI", payload))
    assert values[3] == 7


def test_padding_priority_and_continuation():
    machine = Machine()
    block = machine.caller.block()
    padded = bytes([3]) + bytes(4) + b"\x10" + block[:4] + bytes(3)
    body = message(b"abc")
    machine.feed(
        frame(HEADERS, PADDED | PRIORITIZED, 1, padded)
        + frame(CONTINUATION, 0, 1, block[4:9])
        + frame(CONTINUATION, END_HEADERS, 1, block[9:])
        + frame(DATA, PADDED, 1, bytes([2]) + body[:3] + bytes(2))
        + frame(PRIORITY, 0, 5, bytes(5))
        + frame(0x77, 0xFF, 9, b"unknown")
        + frame(DATA, 0, 1)
        + frame(DATA, PADDED | END_STREAM, 1, bytes([0]) + body[3:])
    )
    assert machine.reader.answers[1].message == b"abc"


def test_trailers_end_a_request():
    machine = Machine()
    machine.feed(machine.caller.headers(1) + frame(DATA, 0, 1, message(b"x")))
    trailers = bytes(machine.caller.encoder.encode([("x-note", "end")]))
    machine.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers))
    assert machine.reader.answers[1].message == b"x"
    # The table is still in step with the client's.
    assert machine.call(3, b"y").reader.answers[3].message == b"y"


@pytest.mark.parametrize(
    ("body", "changes", "status", "text"),
    [
        (b"", (), UNIMPLEMENTED, "exactly one"),
        (message(b"a") + message(b"b"), (), UNIMPLEMENTED, "exactly one"),
        (message(b"abc")[:-1], (), INTERNAL, "shorter"),
        (b"\0\0", (), INTERNAL, "shorter"),
        (message(b"abc", 1), (), INTERNAL, "grpc-encoding"),
        (message(b"abc", 2), (("grpc-encoding", "gzip"),), INTERNAL, "byte 2"),
        (message(b"a"), (("grpc-encoding", "zstd"),), UNIMPLEMENTED, "zstd"),
        (message(bytes(101)), (), EXHAUSTED, "100 bytes"),
        (message(b"a"), ((":path", "/no.Service/Call"),), UNIMPLEMENTED, "/no.Service/Call"),
        (message(b"a"), (("grpc-timeout", "123456789S"),), INTERNAL, "grpc-timeout"),
        (message(b"a"), (("grpc-timeout", "5s"),), INTERNAL, "grpc-timeout"),
        (message(b"a"), (("x-large", "v" * 3000),), EXHAUSTED, "headers"),
    ],
)
def test_refusals_are_statuses(body, changes, status, text):
    machine = Machine(max_message_bytes=100, max_header_list_bytes=2000)
    machine.feed(machine.caller.headers(1, *changes) + frame(DATA, END_STREAM, 1, body))
    answer = machine.reader.answers[1]
    assert (answer.status, answer.is_ended, answer.body, answer.trailers) == (status, True, b"", {})
    assert text in answer.text
    assert answer.headers["content-type"] == "application/grpc"
    assert machine.call(3, b"on").reader.answers[3].message == b"on"


def test_an_unknown_encoding_is_told_what_is_accepted():
    machine = Machine().call(1, b"a", ("grpc-encoding", "br"))
    assert machine.reader.answers[1].headers["grpc-accept-encoding"] == "identity,gzip"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        (((":method", "GET"),), "405"),
        (((":method", "PUT"),), "405"),
        ((("content-type", "application/json"),), "415"),
        ((("content-type", "application/grpc-web"),), "415"),
        ((("content-type", None),), "415"),
        ((("content-type", "application/grpc+proto"),), "200"),
        ((("content-type", "application/grpc;charset=utf-8"),), "200"),
    ],
)
def test_http_statuses(changes, status):
    answer = Machine().call(1, b"a", *changes).reader.answers[1]
    assert (answer.headers[":status"], answer.is_ended) == (status, True)


def test_plain_http_is_answered_after_its_body_if_that_is_short():
    machine = Machine()
    machine.feed(
        machine.caller.headers(1, (":method", "PUT")) + machine.caller.headers(3, (":method", "PUT"))
    )
    machine.feed(frame(DATA, 0, 1, b"some") + frame(DATA, 0, 3, bytes(70_000)))
    assert 1 not in machine.reader.answers
    assert machine.reader.answers[3].headers[":status"] == "405"
    machine.feed(frame(DATA, END_STREAM, 1, b" more"))
    assert machine.reader.answers[1].headers[":status"] == "405"


@pytest.mark.parametrize(
    "changes",
    [
        ((":path", None),),
        ((":path", ""),),
        ((":scheme", None),),
        ((":method", None),),
        ((":nonsense", "1"),),
        (("x", "1"), (":authority", "again")),
        (("connection", "close"),),
        (("transfer-encoding", "chunked"),),
        (("te", "gzip"),),
        (("X-Upper", "1"),),
        (("x bad", "1"),),
        (("x", "a\nb"),),
        (("x", "a\0b"),),
        (("x", " a"),),
        (("content-length", "x"),),
        (("content-length", "5"), ("content-length", "6")),
        (("content-length", "7"),),
    ],
)
def test_malformed_requests_are_reset(changes):
    """RFC 9113, 8.1.1: a stream error of type PROTOCOL_ERROR. A call of one byte has content-length 6."""
    machine = Machine()
    changed = [(name, value) for name, value in changes if name != ":authority"]
    block = machine.caller.block(*changed)
    if len(changed) < len(changes):
        block += bytes(machine.caller.encoder.encode([(":authority", "again")]))
    machine.feed(frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, message(b"a")))
    assert machine.reader.answers[1].reset == 1
    assert machine.reader.goaways == []
    assert machine.call(3, b"on").reader.answers[3].message == b"on"


def test_content_length_that_is_right():
    assert Machine().call(1, b"a", ("content-length", "6")).reader.answers[1].message == b"a"


def test_the_rest_of_a_request_refused_early_is_passed_over():
    machine = Machine(max_message_bytes=1000)
    machine.feed(machine.caller.headers(1) + frame(DATA, 0, 1, message(bytes(5000))[:100]))
    answer = machine.reader.answers[1]
    assert (answer.status, answer.is_ended, answer.reset) == (EXHAUSTED, True, None)
    before = len(machine.reader.frames)
    machine.feed(frame(DATA, 0, 1, bytes(3000)))
    trailers = bytes(machine.caller.encoder.encode([("x-late", "1")]))
    machine.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers))
    assert len(machine.reader.frames) == before
    assert machine.call(3, b"on").reader.answers[3].message == b"on"
    machine.feed(frame(DATA, 0, 1, b"after its end"))
    assert answer.reset == 5


def test_a_long_request_refused_early_is_stopped_once():
    machine = Machine(max_message_bytes=200_000)
    machine.feed(machine.caller.headers(1, (":path", "/nowhere")))
    for _ in range(20):
        machine.feed(frame(DATA, 0, 1, bytes(10_000)))
    assert machine.reader.of(RST) == [(0, 1, bytes(4))]
    assert machine.reader.answers[1].status == UNIMPLEMENTED
    assert machine.reader.goaways == []


def test_compressed_messages_are_marked():
    machine = Machine(echo=False)
    packed = gzip.compress(b"hello")
    machine.feed(machine.caller.headers(1, ("grpc-encoding", "gzip")))
    machine.feed(frame(DATA, END_STREAM, 1, message(packed, 1)))
    machine.call(3, b"plain", ("grpc-encoding", "gzip"))
    assert [(call.message, call.is_compressed) for call in machine.calls] == [
        (packed, True),
        (b"plain", False),
    ]


def test_deadlines_and_tokens_are_handed_on():
    machine = Machine(echo=False)
    machine.call(1, b"", ("grpc-timeout", "250m"), ("authorization", "Bearer t"))
    machine.call(3, b"")
    first, second = machine.calls
    assert (first.deadline, first.credentials) == (machine.now + 0.25, ("Bearer t", ""))
    assert (second.deadline, second.credentials) == (None, ("", ""))
    machine.call(5, b"", ("x-kvcm-internal", "secret"), ("x-kvcm-internal", "secret"))
    assert machine.calls[-1].credentials == ("", "secret")


def test_reset_cancels_and_a_late_answer_is_dropped():
    machine = Machine(echo=False).call(1, b"a")
    machine.feed(frame(RST, 0, 1, (8).to_bytes(4, "big")))
    assert machine.cancelled == [1]
    machine.answer(1, b"late")
    machine.connection.refuse(1, 13, "late")
    assert machine.flush().reader.answers == {}


def test_an_answer_larger_than_a_message_may_be():
    machine = Machine(echo=False, max_message_bytes=10).call(1, b"")
    machine.answer(1, bytes(11))
    assert machine.reader.answers[1].status == EXHAUSTED


def test_texts_are_percent_encoded():
    machine = Machine(echo=False).call(1, b"")
    machine.connection.refuse(1, 5, "50 % of Zürich\n")
    machine.flush()
    assert machine.reader.answers[1].text == "50 %25 of Z%C3%BCrich%0A"


def test_streams_beyond_the_limit_are_refused_and_can_be_repeated():
    machine = Machine(echo=False, max_streams=2).call(1).call(3).call(5)
    assert machine.reader.answers[5].reset == 7
    machine.answer(1, b"")
    assert len(machine.call(7).calls) == 3


def test_varying_metadata_takes_the_short_path_and_means_the_same():
    """Indexed fields, then literals without indexing: names and values that differ call by call."""
    machine = Machine(echo=False)
    for stream in (1, 3, 5):
        machine.call(stream)
    run = machine.caller.block()
    assert len(run) == 6
    for stream, (literal, timeout) in enumerate(
        [
            (b"\x00\x04x-id\x03abc", None),
            (b"\x10\x04x-id\x05abcde", None),
            (b"\x0f\x10\x10application/grpc", None),
            (b"\x00\x0cgrpc-timeout\x025S\x00\x04x-id\x01a", 5.0),
            (b"\x00\x0cgrpc-timeout\x0320m", 0.02),
            (b"\x00\x0dauthorization\x08Bearer t", None),
        ]
    ):
        number = 7 + 2 * stream
        machine.feed(frame(HEADERS, END_HEADERS, number, run + literal))
        machine.feed(frame(DATA, END_STREAM, number, message(b"m")))
        call = machine.calls[-1]
        assert (call.stream_id, call.message) == (number, b"m")
        assert call.deadline == (None if timeout is None else machine.now + timeout)
        assert call.credentials == ("Bearer t" if b"authorization" in literal else "", "")
    number += 2
    machine.feed(frame(HEADERS, END_HEADERS, number, run + b"\x00\x0aconnection\x01x"))
    assert machine.reader.answers[number].reset == 1
    machine.feed(frame(HEADERS, END_HEADERS, number + 2, run + b"\x00\x04x-id\x7fabc"))
    assert machine.reader.goaways == [(number + 2, 9)]
