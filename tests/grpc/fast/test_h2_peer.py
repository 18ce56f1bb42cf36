"""A peer with a state machine of its own, python-h2, which raises on whatever HTTP/2 does not allow."""

from __future__ import annotations

import random
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from tests.unit.fast.wire import message

from .served import PATH, Served, served

HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]
WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
FRAME = h2.settings.SettingCodes.MAX_FRAME_SIZE
TABLE = h2.settings.SettingCodes.HEADER_TABLE_SIZE


class Peer:
    """Acknowledges what it reads at once, unless `is_slow`."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.events: list[h2.events.Event] = []
        self.bodies: dict[int, bytes] = defaultdict(bytes)
        self.fields: dict[int, dict[bytes, bytes]] = defaultdict(dict)
        self.ended: set[int] = set()
        self.is_slow = False
        self.unread = 0
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def call(self, name: str, body: bytes, *, padding: int | None = None, trailers: bool = False) -> int:
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":path", PATH + name), *HEADERS])
        sent = message(body)
        half = len(sent) // 2
        self.h2.send_data(stream, sent[:half], pad_length=padding)
        self.h2.send_data(stream, sent[half:], end_stream=not trailers, pad_length=padding)
        if trailers:
            self.h2.send_headers(stream, [("x-after", "1")], end_stream=True)
        self.flush()
        return stream

    def read_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            data = self.socket.recv(1 << 16)
            assert data, "the server has ended the connection"
            for event in self.h2.receive_data(data):
                self._take(event)
            self.flush()

    def _take(self, event: h2.events.Event) -> None:
        self.events.append(event)
        match event:
            case h2.events.DataReceived():
                self.bodies[event.stream_id] += event.data
                if self.is_slow:
                    self.unread += event.flow_controlled_length
                else:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self.fields[event.stream_id] |= dict(event.headers)
            case h2.events.StreamEnded() | h2.events.StreamReset():
                self.ended.add(event.stream_id)

    def answer(self, stream: int) -> bytes:
        self.read_until(lambda: stream in self.ended)
        assert self.fields[stream][b"grpc-status"] == b"0"
        assert self.fields[stream][b":status"] == b"200"
        return self.bodies[stream][5:]

    def saw(self, kind: type[h2.events.Event]) -> bool:
        return any(isinstance(event, kind) for event in self.events)


@pytest.fixture
def endpoint() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def peer(endpoint: Served) -> Iterator[Peer]:
    found = Peer(endpoint.port)
    yield found
    found.socket.close()


def test_settings_are_exchanged_and_acknowledged(peer):
    peer.answer(peer.call("Call", b"a"))
    assert peer.saw(h2.events.RemoteSettingsChanged)
    assert peer.saw(h2.events.SettingsAcknowledged)


def test_calls_of_all_sizes_padded_and_with_trailers(peer):
    for size in (0, 1, 100, 16_000, 60_000):
        for padding in (None, 0, 200):
            for trailers in (False, True):
                stream = peer.call("Call", bytes(size)[:15_000], padding=padding, trailers=trailers)
                assert peer.answer(stream) == bytes(size)[:15_000]
                stream = peer.call("Large", b"%d" % (size * 20))
                assert peer.answer(stream) == bytes(size * 20)


def test_windows_that_shrink_below_zero_and_grow_again(peer):
    """RFC 9113, 6.9.2: h2 raises when the server sends a byte more than it may."""
    peer.is_slow = True
    streams = [peer.call("Large", b"200000") for _ in range(5)]
    peer.read_until(lambda: peer.unread >= 60_000)
    peer.h2.update_settings({WINDOW: 10})
    peer.flush()
    peer.h2.ping(b"12345678")
    peer.flush()
    peer.read_until(lambda: peer.saw(h2.events.PingAckReceived))
    peer.is_slow = False
    peer.h2.update_settings({WINDOW: 300_000, FRAME: 50_000})
    peer.h2.increment_flow_control_window(2_000_000)
    peer.flush()
    for stream in streams:
        assert peer.answer(stream) == bytes(200_000)
    assert (
        max(e.flow_controlled_length for e in peer.events if isinstance(e, h2.events.DataReceived)) > 16_384
    )


def test_a_header_table_of_any_size(peer):
    for size in (100, 0, 65_536, 4096, 10):
        peer.h2.update_settings({TABLE: size})
        assert peer.answer(peer.call("Call", b"on")) == b"on"
        assert peer.answer(peer.call("Large", b"100000")) == bytes(100_000)


@pytest.mark.parametrize(("name", "status"), [("Missing", b"12"), ("Failing", b"2")])
def test_a_smaller_header_table_before_an_answer_without_message(peer, name, status):
    peer.h2.update_settings({TABLE: 0})
    stream = peer.call(name, b"")
    peer.read_until(lambda: stream in peer.ended)
    assert peer.fields[stream][b"grpc-status"] == status
    assert peer.answer(peer.call("Call", b"on")) == b"on"


def test_streams_reset_in_the_middle_do_not_disturb_others(peer):
    chance = random.Random(7)
    kept = {}
    for number in range(100):
        body = b"%d" % number
        stream = peer.call("Large" if number % 3 else "Call", b"50000" if number % 3 else body)
        if chance.random() < 0.3:
            peer.h2.reset_stream(stream, 8)
            peer.flush()
        else:
            kept[stream] = bytes(50_000) if number % 3 else body
    for stream, expected in kept.items():
        assert peer.answer(stream) == expected


def test_priorities_and_pings_between_calls(peer):
    for number in range(50):
        stream = peer.call("Call", b"%d" % number)
        peer.h2.prioritize(stream, weight=number + 1, depends_on=0)
        peer.h2.ping(b"%08d" % number)
        peer.flush()
        assert peer.answer(stream) == b"%d" % number
    peer.read_until(lambda: sum(isinstance(e, h2.events.PingAckReceived) for e in peer.events) == 50)
