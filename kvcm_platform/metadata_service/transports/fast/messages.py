"""gRPC over HTTP/2 (gRPC's PROTOCOL-HTTP2 document): statuses, timeouts, text in trailers, compression."""

from __future__ import annotations

import re
import zlib
from enum import IntEnum

PREFIX_BYTES = 5
"""A message's prefix: one byte "is compressed", four of length."""
ACCEPTED_ENCODINGS = b"identity,gzip"
_UNIT_SECONDS = {
    b"H": 3600.0,
    b"M": 60.0,
    b"S": 1.0,
    b"m": 1e-3,
    b"u": 1e-6,
    b"n": 1e-9,
}
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_PLAIN_TEXT = frozenset(range(0x20, 0x7F)) - {0x25}


class Status(IntEnum):
    """The statuses that this endpoint itself answers with; handlers may raise any other number."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Refused(Exception):
    """A call that ends with a gRPC status instead of a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def timeout_seconds(value: bytes) -> float | None:
    """The seconds of a grpc-timeout header; None if it is malformed."""
    match = _TIMEOUT.fullmatch(value)
    return int(match[1]) * _UNIT_SECONDS[match[2]] if match else None


def percent_encoded(text: str, most_bytes: int = 4096) -> bytes:
    """grpc-message: UTF-8 with everything but printable ASCII, and "%" itself, as %XX."""
    raw = text.encode("utf-8", "replace")
    encoded = [b"%c" % byte if byte in _PLAIN_TEXT else b"%%%02X" % byte for byte in raw[:most_bytes]]
    return b"".join(encoded)


def inflated(data: bytes, most_bytes: int) -> bytes:
    """The message inside a gzip stream. Never makes more than `most_bytes` + 1 bytes of it."""
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        message = reader.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise Refused(Status.INTERNAL, f"the message is not gzip: {error}") from error
    if len(message) > most_bytes:
        raise Refused(Status.RESOURCE_EXHAUSTED, larger_than(most_bytes))
    if not reader.eof or reader.unused_data:
        raise Refused(Status.INTERNAL, "the message is not one whole gzip stream")
    return message


def larger_than(most_bytes: int) -> str:
    return f"the message is larger than {most_bytes} bytes (KVCM_MAX_MESSAGE_MB)"
