"""The client's side of HTTP/2 for tests, apart from the code under test: hpack's encoder and structs."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hpack import Decoder, Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITIZED, ACK = 1, 4, 8, 0x20, 1
ECHO = "/test.Echo/Call"
BASE = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", ECHO),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(body: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(body)) + body


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def window(stream: int, increment: int) -> bytes:
    return frame(WINDOW, 0, stream, struct.pack(">I", increment))


def rst(stream: int, code: int = 8) -> bytes:
    return frame(RST, 0, stream, struct.pack(">I", code))


def hello(*pairs: tuple[int, int]) -> bytes:
    return PREFACE + settings(*pairs)


def fields(*changes: tuple[str, str | None]) -> list[tuple[str, str]]:
    """The usual headers of a call with some replaced, added, or (with None) left out."""
    known = dict(BASE)
    extra = []
    for name, value in changes:
        if value is None:
            known.pop(name)
        elif name in known:
            known[name] = value
        else:
            extra.append((name, value))
    return [*known.items(), *extra]


@dataclass
class Caller:
    """Encodes requests of one connection."""

    encoder: Encoder = field(default_factory=Encoder)

    def block(self, *changes: tuple[str, str | None]) -> bytes:
        return bytes(self.encoder.encode(fields(*changes)))

    def headers(self, stream: int, *changes: tuple[str, str | None], flags: int = END_HEADERS) -> bytes:
        return frame(HEADERS, flags, stream, self.block(*changes))

    def call(self, stream: int, body: bytes = b"", *changes: tuple[str, str | None]) -> bytes:
        return self.headers(stream, *changes) + frame(DATA, END_STREAM, stream, message(body))


@dataclass
class Answer:
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    trailers: dict[str, str] = field(default_factory=dict)
    is_ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int({**self.headers, **self.trailers}["grpc-status"])

    @property
    def text(self) -> str:
        return {**self.headers, **self.trailers}.get("grpc-message", "")

    @property
    def message(self) -> bytes:
        flag, size = struct.unpack(">BI", self.body[:5])
        assert (flag, size) == (0, len(self.body) - 5)
        return self.body[5:]

    @property
    def messages(self) -> list[bytes]:
        """Of a stream of several."""
        found, rest = [], self.body
        while rest:
            flag, size = struct.unpack(">BI", rest[:5])
            assert flag == 0
            assert len(rest) >= 5 + size
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found


class Reader:
    """Reads what a server sends: whole frames, and what they mean for each stream."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._rest = b""
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.answers: dict[int, Answer] = {}

    def feed(self, data: bytes) -> Reader:
        self._rest += data
        while len(self._rest) >= 9:
            size = int.from_bytes(self._rest[:3], "big")
            if len(self._rest) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self._rest[3:9])
            payload = self._rest[9 : 9 + size]
            self._rest = self._rest[9 + size :]
            self.frames.append((kind, flags, stream, payload))
            self._understand(kind, flags, stream, payload)
        return self

    def _understand(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (HEADERS, DATA, RST):
            answer = self.answers.setdefault(stream, Answer())
            assert not answer.is_ended or kind == RST, "a frame after the end"
            if kind == HEADERS:
                assert flags & END_HEADERS
                found = dict(self._decoder.decode(payload))
                if answer.headers:
                    answer.trailers = found
                else:
                    answer.headers = found
            elif kind == DATA:
                answer.body += payload
            else:
                answer.reset = int.from_bytes(payload, "big")
            if kind != RST and flags & END_STREAM:
                answer.is_ended = True

    def of(self, kind: int) -> list[tuple[int, int, bytes]]:
        return [(flags, stream, payload) for k, flags, stream, payload in self.frames if k == kind]

    @property
    def goaways(self) -> list[tuple[int, int]]:
        """(last stream, code) of each GOAWAY."""
        return [struct.unpack(">II", payload[:8]) for _, _, payload in self.of(GOAWAY)]
