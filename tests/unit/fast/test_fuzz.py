"""The frame machine under anything: pieces of any size mean the same, and nothing makes it raise."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from .machine import TALK, WATCH, Machine
from .wire import (
    CONTINUATION,
    DATA,
    ECHO,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PREFACE,
    Caller,
    frame,
    hello,
    message,
)
from .wire import settings as settings_frame

SETTINGS = settings(max_examples=150, deadline=None)

streams = st.integers(0, 12)
small = st.binary(max_size=40)


@st.composite
def sound_frames(draw: st.DrawFn) -> list[bytes]:
    """Frames of a client that mostly knows the rules: calls whole and in parts, and control frames."""
    caller = Caller()
    sent = []
    stream = -1
    for _ in range(draw(st.integers(1, 8))):
        path = (":path", draw(st.sampled_from([ECHO, TALK, WATCH])))
        match draw(st.integers(0, 7)):
            case 0:
                stream += 2
                extra = draw(st.lists(st.tuples(st.sampled_from(["x-a", "x-b"]), st.text("abc", max_size=5))))
                sent.append(caller.call(stream, draw(small), path, *extra))
            case 1:
                stream += 2
                block, body = caller.block(path), message(draw(small))
                at, cut = draw(st.integers(0, len(block))), draw(st.integers(0, len(body)))
                sent.append(frame(HEADERS, 0, stream, block[:at]))
                sent.append(frame(CONTINUATION, END_HEADERS, stream, block[at:]))
                sent.append(frame(DATA, PADDED, stream, b"\x02" + body[:cut] + bytes(2)))
                sent.append(frame(DATA, END_STREAM, stream, body[cut:]))
            case 2:
                sent.append(frame(6, 0, 0, bytes(8)))
            case 3:
                sent.append(settings_frame((4, draw(st.integers(0, 70_000)))))
            case 4:
                target = draw(st.integers(0, max(stream, 0)))
                sent.append(frame(8, 0, target, struct.pack(">I", draw(st.integers(0, 1000)))))
            case 5:
                sent.append(frame(3, 0, max(stream, 1), struct.pack(">I", 8)))
            case 6:
                sent.append(frame(2, 0, draw(st.integers(1, 99)), bytes(5)))
            case _:
                stream += 2
                sent.append(
                    caller.headers(stream, ("grpc-timeout", draw(st.sampled_from(["1S", "x", "99m"]))))
                )
    return sent


def outcome(sent: bytes, cuts: list[int]) -> tuple[object, ...]:
    """What a machine makes of bytes that arrive in pieces."""
    machine = Machine(greet=False, echo=False, max_message_bytes=60)
    edges = [0, *sorted(cut % (len(sent) + 1) for cut in cuts), len(sent)]
    for start, stop in zip(edges, edges[1:], strict=False):
        if start < stop:
            machine.feed(sent[start:stop])
    # Only now: an answer between two pieces would rightly be sent before a reset in the second.
    for call in machine.calls:
        machine.answer(call.stream_id, call.message)
    return (
        [(call.stream_id, call.message, call.deadline) for call in machine.calls],
        machine.cancelled,
        machine.reader.goaways,
        {
            stream: (answer.headers, answer.body, answer.trailers, answer.reset)
            for stream, answer in machine.reader.answers.items()
        },
        machine.connection.is_closed,
    )


@SETTINGS
@given(sound_frames(), st.lists(st.integers(0, 5000), max_size=30))
def test_pieces_of_any_size_mean_the_same(frames, cuts):
    sent = hello() + b"".join(frames)
    assert outcome(sent, cuts) == outcome(sent, [])


@SETTINGS
@given(sound_frames())
def test_single_bytes_mean_the_same(frames):
    sent = hello() + b"".join(frames)
    assert outcome(sent, list(range(len(sent)))) == outcome(sent, [])


@SETTINGS
@given(st.binary(max_size=300))
def test_garbage_never_raises(garbage):
    for start in (b"", PREFACE, hello()):
        Machine(greet=False).feed(start + garbage).tick(1000)


@SETTINGS
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 255), streams, st.binary(max_size=60)), max_size=12)
)
def test_well_framed_garbage_never_raises(parts):
    machine = Machine()
    for kind, flags, stream, payload in parts:
        machine.feed(frame(kind, flags, stream, payload))
    machine.tick(1000)
    assert machine.reader.frames


@SETTINGS
@given(st.binary(max_size=200), st.integers(0, 255))
def test_any_header_block_is_read_or_ends_the_connection(block, flags):
    machine = Machine().call(1).call(3)
    machine.feed(frame(HEADERS, flags & ~0x28 | END_HEADERS, 5, block))
    assert (
        machine.connection.is_closed
        or machine.call(7, b"on").connection.is_closed
        or 7 in machine.reader.answers
    )


@SETTINGS
@given(sound_frames(), st.data())
def test_damaged_frames_never_raise(frames, data):
    sent = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    machine = Machine(echo=data.draw(st.booleans()))
    machine.feed(bytes(sent)).tick(30).tick(1000)
