"""Streaming methods through the frame machine: several messages each way, and how they end."""

from __future__ import annotations

import pytest

from kvcm_platform.metadata_service.transports.fast.outflow import MOST_UNREAD_BYTES

from .machine import TALK, WATCH, Machine
from .wire import DATA, END_STREAM, RST, frame, message, rst, window

NOT_FOUND, EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNKNOWN = 5, 8, 12, 13, 14, 2


def talk(path: str = TALK, **limits: float) -> Machine:
    machine = Machine(**limits)
    return machine.feed(machine.caller.headers(1, (":path", path)))


def said(machine: Machine) -> list[bytes]:
    return machine.reader.answers[1].messages


def test_each_message_is_answered_when_it_is_whole():
    machine = talk()
    assert not machine.reader.answers
    machine.feed(frame(DATA, 0, 1, message(b"2a") + message(b"b")[:4]))
    assert said(machine) == [b"2a", b"2a"]
    machine.feed(frame(DATA, 0, 1, message(b"b")[4:]))
    assert said(machine) == [b"2a", b"2a", b"b"]
    assert not machine.reader.answers[1].is_ended
    machine.feed(frame(DATA, END_STREAM, 1, message(b"c")))
    assert said(machine)[3:] == [b"c"]
    assert machine.reader.answers[1].status == 0
    assert machine.reader.answers[1].is_ended
    assert not machine.connection.has_calls


def test_an_end_without_messages_is_ok():
    answer = talk().feed(frame(DATA, END_STREAM, 1)).reader.answers[1]
    assert (answer.messages, answer.status, answer.headers[":status"]) == ([], 0, "200")


def test_an_open_ended_answer_goes_on_until_the_client_resets_it():
    machine = talk(WATCH).feed(frame(DATA, END_STREAM, 1, message(b"a")))
    assert said(machine) == [b"a"]
    machine.tick(3600)
    assert not machine.reader.answers[1].is_ended
    assert machine.connection.has_calls
    machine.feed(rst(1))
    assert not machine.connection.has_calls


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (message(b"0"), NOT_FOUND),
        (message(b"!"), UNKNOWN),
        (message(b"x", 1), UNIMPLEMENTED),
        (message(bytes(70_000))[:9], EXHAUSTED),
        (message(b"abc")[:6], INTERNAL),
    ],
)
@pytest.mark.parametrize("before", [b"", message(b"3before")])
def test_refusals_end_the_call_before_and_after_messages(body, status, before):
    machine = talk()
    if before:
        machine.feed(frame(DATA, 0, 1, before))
    machine.feed(frame(DATA, END_STREAM, 1, body))
    answer = machine.reader.answers[1]
    assert (answer.status, answer.is_ended) == (status, True)
    assert answer.messages == [b"3before"] * (3 if before else 0)
    assert not machine.connection.has_calls


def test_closed_windows_hold_messages_back():
    machine = Machine((4, 0))
    machine.feed(machine.caller.headers(1, (":path", TALK)) + frame(DATA, END_STREAM, 1, message(b"9abc")))
    assert said(machine) == []
    machine.feed(window(1, 10_000))
    assert said(machine) == [b"9abc"] * 9
    assert machine.reader.answers[1].is_ended


def test_who_asks_on_without_reading_is_reset():
    machine = Machine((4, 0), max_credits=1e9)
    machine.feed(machine.caller.headers(1, (":path", TALK)))
    large = frame(DATA, 0, 1, message(b"9" + bytes(60_000)))
    for _ in range(MOST_UNREAD_BYTES // 540_000 + 1):
        machine.feed(large)
    assert machine.reader.answers[1].reset == 11
    assert machine.connection._outflow.queued_bytes == 0
    assert not machine.connection.has_calls


def test_messages_cost_credits():
    machine = talk(WATCH, max_credits=100, credits_per_second=0)
    machine.feed(frame(DATA, 0, 1, message(b"a") * 30))
    assert [code for _, code in machine.reader.goaways] == [11]


@pytest.mark.parametrize("body", [b"", message(b"a")])
def test_draining_ends_them(body):
    machine = talk(WATCH)
    machine.feed(frame(DATA, END_STREAM, 1, body) if body else b"")
    machine.connection.drain(machine.now)
    machine.flush()
    assert machine.reader.answers[1].status == UNAVAILABLE
    machine.feed(machine.caller.call(3, b"a", (":path", TALK)))
    assert machine.reader.answers[3].status == UNAVAILABLE
    machine.tick(5)
    assert machine.connection.is_finished


def test_deadlines_end_them():
    machine = Machine()
    timeout = (":path", WATCH), ("grpc-timeout", "2S")
    machine.feed(machine.caller.headers(1, *timeout) + frame(DATA, END_STREAM, 1, message(b"a")))
    machine.tick(3)
    assert (said(machine), machine.reader.answers[1].status) == ([b"a"], 4)


def test_a_reset_with_messages_held_back_leaves_nothing():
    machine = Machine((4, 0))
    machine.feed(machine.caller.headers(1, (":path", TALK)) + frame(DATA, 0, 1, message(b"9abc")) + rst(1))
    assert machine.connection._outflow.queued_bytes == 0
    assert machine.call(3, b"on").feed(window(3, 100)).reader.answers[3].message == b"on"
    assert not machine.reader.of(RST)
