"""The connection around the calls: its start, its windows, its errors, its end, and what floods cost."""

from __future__ import annotations

import struct

import pytest

from .machine import Machine
from .wire import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH,
    RST,
    SETTINGS,
    WINDOW,
    frame,
    message,
    rst,
    settings,
    window,
)

PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION, CALM = 1, 3, 5, 6, 7, 8, 9, 11
INITIAL_WINDOW, MAX_FRAME, PUSH_SETTING = 4, 5, 2
MAX = (1 << 31) - 1


def open_stream(machine: Machine) -> bytes:
    return machine.caller.headers(1)


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (PROTOCOL, lambda m: frame(DATA, 0, 0, b"x")),
        (PROTOCOL, lambda m: frame(DATA, 0, 1, b"x")),
        (PROTOCOL, lambda m: frame(DATA, 0, 2, b"x")),
        (PROTOCOL, lambda m: frame(HEADERS, END_HEADERS, 0, m.caller.block())),
        (PROTOCOL, lambda m: frame(HEADERS, END_HEADERS, 2, m.caller.block())),
        (PROTOCOL, lambda m: frame(HEADERS, END_HEADERS | PADDED, 1, b"\x05abc")),
        (PROTOCOL, lambda m: frame(HEADERS, END_HEADERS | PADDED, 1, b"")),
        (SIZE, lambda m: frame(HEADERS, END_HEADERS | PRIORITIZED, 1, b"abc")),
        (PROTOCOL, lambda m: open_stream(m) + frame(DATA, PADDED, 1, b"\x01")),
        (PROTOCOL, lambda m: frame(HEADERS, 0, 1, m.caller.block()) + frame(PING, 0, 0, bytes(8))),
        (PROTOCOL, lambda m: frame(HEADERS, 0, 1, m.caller.block()) + frame(CONTINUATION, 4, 3, b"")),
        (PROTOCOL, lambda m: frame(HEADERS, 0, 1, m.caller.block()) + frame(0x99, 0, 1, b"")),
        (PROTOCOL, lambda m: frame(CONTINUATION, END_HEADERS, 1, b"")),
        (PROTOCOL, lambda m: frame(PUSH, END_HEADERS, 1, bytes(4))),
        (PROTOCOL, lambda m: frame(PRIORITY, 0, 0, bytes(5))),
        (PROTOCOL, lambda m: rst(0)),
        (PROTOCOL, lambda m: rst(1)),
        (SIZE, lambda m: open_stream(m) + frame(RST, 0, 1, b"abc")),
        (PROTOCOL, lambda m: frame(SETTINGS, 0, 1)),
        (SIZE, lambda m: frame(SETTINGS, 0, 0, b"12345")),
        (SIZE, lambda m: frame(SETTINGS, ACK, 0, bytes(6))),
        (PROTOCOL, lambda m: settings((PUSH_SETTING, 2))),
        (FLOW, lambda m: settings((INITIAL_WINDOW, MAX + 1))),
        (PROTOCOL, lambda m: settings((MAX_FRAME, 16383))),
        (PROTOCOL, lambda m: settings((MAX_FRAME, 1 << 24))),
        (PROTOCOL, lambda m: frame(PING, 0, 1, bytes(8))),
        (SIZE, lambda m: frame(PING, 0, 0, bytes(7))),
        (PROTOCOL, lambda m: frame(GOAWAY, 0, 1, bytes(8))),
        (SIZE, lambda m: frame(GOAWAY, 0, 0, bytes(7))),
        (PROTOCOL, lambda m: window(0, 0)),
        (PROTOCOL, lambda m: window(1, 5)),
        (SIZE, lambda m: frame(WINDOW, 0, 0, b"abc")),
        (FLOW, lambda m: window(0, MAX)),
        (SIZE, lambda m: frame(DATA, 0, 1, bytes((256 << 10) + 1))[:20]),
        (COMPRESSION, lambda m: frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\x0f")),
        (COMPRESSION, lambda m: frame(HEADERS, END_HEADERS, 1, b"\x00\x7f")),
        (COMPRESSION, lambda m: frame(HEADERS, END_HEADERS, 1, b"\x20\x20\x20\x82")),
        (COMPRESSION, lambda m: frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\xff\x7f")),
        (CALM, lambda m: frame(HEADERS, END_HEADERS, 1, bytes(20_000))),
    ],
)
def test_connection_errors_end_the_connection(code, sent):
    machine = Machine()
    machine.feed(sent(machine))
    assert [found for _, found in machine.reader.goaways] == [code]
    assert machine.connection.is_closed
    assert machine.connection.is_finished
    assert machine.connection.receive(machine.caller.call(9), machine.now) == []


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (CLOSED, lambda m: m.caller.call(1) + frame(DATA, 0, 1, b"x")),
        (CLOSED, lambda m: m.caller.call(1) + m.caller.headers(1, flags=END_HEADERS | END_STREAM)),
        (PROTOCOL, lambda m: open_stream(m) + frame(HEADERS, END_HEADERS, 1, b"\x00\x01x\x01y")),
        (PROTOCOL, lambda m: m.caller.call(1) + window(1, 0)),
        (FLOW, lambda m: m.caller.call(1) + window(1, MAX)),
        (SIZE, lambda m: open_stream(m) + frame(PRIORITY, 0, 1, bytes(4))),
    ],
)
def test_stream_errors_reset_the_stream_alone(code, sent):
    machine = Machine(echo=False)
    machine.feed(sent(machine))
    assert machine.reader.answers[1].reset == code
    assert machine.reader.goaways == []
    machine.echo = True
    assert machine.call(3, b"on").reader.answers[3].message == b"on"


def test_frames_on_a_stream_that_is_over():
    machine = Machine().call(1, b"a")
    machine.feed(window(1, 5) + rst(1) + frame(PRIORITY, 0, 1, bytes(5)))
    assert machine.reader.goaways == []
    machine.feed(frame(DATA, 0, 1, b"x"))
    assert machine.reader.answers[1].reset == CLOSED
    machine.feed(machine.caller.headers(1))
    assert machine.reader.goaways == [(1, CLOSED)]


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\x16\x03\x01"])
def test_another_protocol_is_sent_away(sent):
    assert Machine(greet=False).feed(sent).reader.goaways == [(0, PROTOCOL)]


@pytest.mark.parametrize("first", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS, ACK, 0)])
def test_settings_come_first(first):
    assert Machine(greet=False).feed(PREFACE + first).reader.goaways == [(0, PROTOCOL)]


def test_settings_are_acknowledged_and_pings_answered():
    machine = Machine().feed(frame(PING, 0, 0, b"12345678") + frame(PING, ACK, 0, b"unasked!"))
    assert machine.reader.of(SETTINGS)[1:] == [(ACK, 0, b"")]
    assert machine.reader.of(PING) == [(ACK, 0, b"12345678")]


def test_answers_respect_frame_size_and_both_windows():
    body = bytes(range(256)) * 400
    machine = Machine().call(1, body)
    answer = machine.reader.answers[1]
    assert len(answer.body) == 65_535
    assert max(len(payload) for _, _, payload in machine.reader.of(DATA)) == 16_384
    machine.feed(window(0, 1 << 20))
    assert len(answer.body) == 65_535
    machine.feed(window(1, 10))
    assert len(answer.body) == 65_545
    machine.feed(settings((INITIAL_WINDOW, 65_536), (MAX_FRAME, 1 << 20)))
    assert len(answer.body) == 65_546
    machine.feed(window(1, 1 << 20))
    assert (answer.message, answer.status, answer.is_ended) == (body, 0, True)
    assert len(machine.reader.of(DATA)[-1][2]) == len(body) + 5 - 65_546


def test_a_window_that_opens_before_the_answer_counts():
    machine = Machine((INITIAL_WINDOW, 0), echo=False)
    machine.feed(window(0, 1 << 20) + machine.caller.call(1) + window(1, 200_000))
    machine.answer(1, bytes(100_000))
    assert machine.reader.answers[1].is_ended


def test_a_smaller_initial_window_may_make_windows_negative():
    machine = Machine((INITIAL_WINDOW, 1000), echo=False).call(1)
    machine.feed(settings((INITIAL_WINDOW, 100)))
    machine.answer(1, bytes(2000))
    answer = machine.reader.answers[1]
    assert len(answer.body) == 100
    machine.feed(settings((INITIAL_WINDOW, 0)) + window(1, 100))
    assert len(answer.body) == 100
    machine.feed(window(1, 1))
    assert len(answer.body) == 101


def test_a_stalled_stream_does_not_hold_up_others():
    machine = Machine((INITIAL_WINDOW, 10), echo=False).call(1).call(3)
    machine.answer(1, bytes(100))
    machine.feed(window(3, 1000))
    machine.answer(3, bytes(100))
    assert machine.reader.answers[3].is_ended
    assert not machine.reader.answers[1].is_ended


def test_answers_take_turns_in_a_shared_window():
    machine = Machine((INITIAL_WINDOW, MAX), echo=False).call(1).call(3)
    machine.connection.pause()
    machine.answer(1, bytes(400_000)).answer(3, bytes(400_000))
    machine.feed(window(0, 500_000))
    machine.connection.resume()
    machine.flush()
    assert all(len(machine.reader.answers[stream].body) > 200_000 for stream in (1, 3))


def test_nothing_is_sent_while_the_socket_is_full():
    machine = Machine(echo=False).call(1)
    machine.connection.pause()
    machine.answer(1, b"abc")
    assert machine.reader.answers[1].body == b""
    machine.connection.resume()
    assert machine.flush().reader.answers[1].message == b"abc"


def test_calls_wait_while_too_many_answers_are_queued():
    machine = (
        Machine((INITIAL_WINDOW, 0), max_queued_bytes=1000).call(1, bytes(2000)).call(3, b"x").call(5, b"y")
    )
    assert [call.stream_id for call in machine.calls] == [1]
    machine.feed(rst(5))
    machine.feed(window(1, 5000))
    assert [call.stream_id for call in machine.calls] == [1, 3]
    assert machine.feed(window(3, 100)).reader.answers[3].message == b"x"


def test_reset_frees_a_queued_answer():
    machine = Machine((INITIAL_WINDOW, 0), max_queued_bytes=1000).call(1, bytes(2000)).call(3, b"x")
    machine.feed(rst(1))
    assert [call.stream_id for call in machine.calls] == [1, 3]


def test_received_data_is_given_back_to_the_window():
    machine = Machine(echo=False, max_message_bytes=100_000)
    for stream in range(1, 41, 2):
        machine.call(stream, bytes(50_000))
        machine.answer(stream, b"")
    given = sum(
        int.from_bytes(payload, "big") for _, stream, payload in machine.reader.of(WINDOW) if not stream
    )
    assert 20 * 50_000 < given < 20 * 50_000 + 1_000_000
    assert machine.reader.goaways == []


def test_more_data_than_a_stream_may_send():
    machine = Machine(max_message_bytes=100_000, max_frame_bytes=65_536)
    machine.feed(machine.caller.headers(1) + frame(DATA, 0, 1, message(bytes(100_000))[:50_000]))
    for _ in range(8):
        machine.feed(frame(DATA, PADDED, 1, bytes([255]) + b"x" + bytes(255)))
    assert machine.reader.answers == {}
    for _ in range(4):
        machine.feed(frame(DATA, 0, 1, bytes(60_000)))
    assert machine.reader.answers[1].status == 12


def test_unfinished_requests_share_a_limit():
    machine = Machine(max_message_bytes=100_000)
    for stream in range(1, 19, 2):
        machine.feed(machine.caller.headers(stream))
        machine.feed(frame(DATA, 0, stream, message(bytes(100_000))[:90_000]))
    statuses = [answer.status for answer in machine.reader.answers.values()]
    assert statuses
    assert set(statuses) == {8}
    assert machine.connection.has_calls


def flood(machine: Machine, one: bytes | None, seconds: float = 1.0, most: int = 20_000) -> int:
    """How many frames it takes to be sent away; time passes evenly."""
    for count in range(most):
        machine.now += seconds / most
        stream = 1 + 2 * count
        machine.feed(machine.caller.call(stream) + rst(stream) if one is None else one)
        if machine.connection.is_closed:
            assert machine.reader.goaways[-1][1] == CALM
            return count
    return most


@pytest.mark.parametrize(
    "one",
    [
        frame(PING, 0, 0, bytes(8)),
        frame(PING, ACK, 0, bytes(8)),
        settings(),
        settings((INITIAL_WINDOW, 1)),
        frame(SETTINGS, ACK, 0),
        window(0, 1),
        window(1, 1),
        frame(DATA, 0, 1),
        frame(DATA, 0, 3, b"x"),
        frame(PRIORITY, 0, 7, bytes(5)),
        frame(0x99, 0, 0, b""),
        rst(1),
        None,
    ],
    ids=str,
)
def test_floods_are_sent_away(one):
    machine = Machine(echo=False)
    machine.feed(machine.caller.headers(1) + machine.caller.headers(3))
    machine.feed(frame(DATA, 0, 3, message(bytes(60_000))[:5]))
    assert 500 < flood(machine, one) < 6000


def test_an_empty_headers_flood_meets_the_stream_limit():
    machine = Machine(max_streams=10)
    for count in range(20_000):
        machine.feed(machine.caller.headers(1 + 2 * count))
        if machine.connection.is_closed:
            break
    assert machine.reader.goaways[-1][1] == CALM
    assert count < 5000


@pytest.mark.parametrize("part", [b"", b"\x00\x01a\x01b"])
def test_continuation_floods_are_cut_off(part):
    machine = Machine()
    machine.feed(frame(HEADERS, 0, 1, machine.caller.block()))
    for _ in range(20):
        machine.feed(frame(CONTINUATION, 0, 1, part))
    assert machine.reader.goaways == [(0, CALM)]


def test_a_header_bomb_is_cut_off():
    machine = Machine()
    bomb = b"\x40\x01a\x7f\x81\x1d" + b"v" * 4000 + b"\xbe" * 4000
    machine.feed(frame(HEADERS, END_HEADERS, 1, bomb[:16_000]))
    assert machine.reader.goaways == [(1, CALM)]


def test_a_busy_client_earns_its_control_frames():
    """20,000 calls in a second, each with two window updates, a reset after its end, and pings between."""
    machine = Machine()
    for count in range(20_000):
        machine.now += 1 / 20_000
        stream = 1 + 2 * count
        machine.feed(machine.caller.call(stream, b"x") + window(0, 6) + window(stream, 6))
        if count % 10 == 0:
            machine.feed(frame(PING, 0, 0, bytes(8)) + rst(stream))
    assert machine.reader.goaways == []


def test_small_windows_of_a_large_answer_are_earned():
    machine = Machine((INITIAL_WINDOW, 1024), echo=False).call(1)
    machine.answer(1, bytes(1 << 20))
    while not machine.reader.answers[1].is_ended:
        machine.feed(window(0, 512) + window(1, 512))
        assert machine.reader.goaways == []


def test_keepalive_pings_without_calls_are_fine():
    machine = Machine()
    for _ in range(10_000):
        machine.feed(frame(PING, 0, 0, bytes(8))).tick(0.01)
    assert machine.reader.goaways == []


def test_drain_lets_calls_on_their_way_in_and_those_in_flight_finish():
    machine = Machine(echo=False).call(1)
    machine.connection.drain(machine.now)
    machine.flush()
    assert machine.reader.goaways == [(MAX, 0)]
    machine.call(3)
    (ping,) = machine.reader.of(PING)
    machine.feed(frame(PING, ACK, 0, ping[2]))
    assert machine.reader.goaways == [(MAX, 0), (3, 0)]
    machine.call(5)
    assert machine.reader.answers[5].reset == REFUSED
    machine.answer(1, b"a")
    assert not machine.connection.is_finished
    machine.answer(3, b"b")
    assert machine.connection.is_finished
    assert (machine.reader.answers[1].message, machine.reader.answers[3].message) == (b"a", b"b")


def test_drain_does_not_wait_for_a_peer_that_never_answers_the_ping():
    machine = Machine()
    machine.connection.drain(machine.now)
    assert machine.tick(1.5).reader.goaways == [(MAX, 0), (0, 0)]
    assert machine.connection.is_finished


def test_a_peer_that_says_goodbye_is_let_go_after_its_calls():
    machine = Machine(echo=False).call(1)
    machine.feed(frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)))
    assert not machine.connection.is_finished
    assert machine.answer(1, b"").connection.is_finished


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], PREFACE, PREFACE + b"\0\0"])
def test_a_client_that_does_not_begin_is_cut_off(sent):
    machine = Machine(greet=False).feed(sent)
    assert not machine.tick(9).connection.is_finished
    assert machine.tick(2).connection.is_finished


def test_an_idle_connection_is_drained_and_a_pinging_one_kept():
    machine = Machine(idle_seconds=60)
    for _ in range(10):
        machine.feed(frame(PING, 0, 0, bytes(8))).tick(50)
    assert machine.reader.goaways == []
    machine.tick(20).tick(2)
    assert machine.connection.is_finished


def test_unfinished_requests_and_unread_answers_time_out():
    machine = Machine((INITIAL_WINDOW, 0), echo=False, body_seconds=30, stall_seconds=40)
    machine.feed(machine.caller.headers(1) + machine.caller.headers(3, ("grpc-timeout", "5S"))).call(5)
    machine.answer(5, b"unread")
    machine.call(7, b"", ("grpc-timeout", "5S")).call(9)
    machine.tick(6)
    assert machine.reader.answers[3].status == machine.reader.answers[7].status == 4
    assert machine.cancelled == [7]
    assert machine.tick(30).reader.answers[1].reset == CANCEL
    assert machine.tick(10).reader.answers[5].reset == CANCEL
    # A handler without a deadline may take as long as it likes.
    machine.feed(window(9, 100)).answer(9, b"at last")
    assert machine.reader.answers[9].message == b"at last"


def test_a_header_block_that_does_not_end_is_cut_off():
    machine = Machine()
    machine.feed(frame(HEADERS, 0, 1, machine.caller.block()))
    assert machine.tick(11).connection.is_finished


def test_calls_beyond_those_running_wait_their_turn():
    machine = Machine(echo=False, max_running=2).call(1).call(3).call(5).call(7)
    assert [call.stream_id for call in machine.calls] == [1, 3]
    machine.answer(3, b"")
    assert [call.stream_id for call in machine.calls] == [1, 3, 5]
    machine.feed(rst(1))
    machine.call(9)
    assert [call.stream_id for call in machine.calls] == [1, 3, 5, 7]


def test_large_answers_to_come_count_as_queued():
    machine = Machine((INITIAL_WINDOW, MAX), echo=False, max_queued_bytes=1000)
    machine.call(1).answer(1, bytes(600)).call(3).call(5).call(7)
    assert [call.stream_id for call in machine.calls] == [1, 3, 5]
    machine.answer(3, b"")
    assert [call.stream_id for call in machine.calls] == [1, 3, 5, 7]


def test_a_small_connection_window_is_shared_in_turn():
    machine = Machine((INITIAL_WINDOW, MAX), echo=False).call(1).call(3).call(5)
    machine.answer(1, bytes(100_000)).answer(3, bytes(100_000)).answer(5, bytes(100_000))
    for _ in range(6):
        machine.feed(window(0, 10_000))
    assert all(len(machine.reader.answers[stream].body) > 15_000 for stream in (1, 3, 5))


def test_many_streams_that_stall_at_once_do_not_break_the_clock():
    machine = Machine((INITIAL_WINDOW, 0), echo=False, max_credits=100, credits_per_second=0, stall_seconds=5)
    for stream in range(1, 201, 2):
        machine.call(stream).answer(stream, b"unread")
    machine.tick(6).tick(6)
    assert machine.reader.goaways[-1][1] == CALM
    assert machine.connection.is_finished
