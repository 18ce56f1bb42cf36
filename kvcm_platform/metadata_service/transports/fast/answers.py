"""Answers as header blocks. They use no dynamic table, so every connection shares them (RFC 7541, 6)."""

from __future__ import annotations

from .messages import ACCEPTED_ENCODINGS, Status, percent_encoded

_STATUS_200 = b"\x88"
_STATUS_NAME = 8
_CONTENT_TYPE_NAME = 31
_ALLOW_NAME = 22


def _integer(value: int, prefix_bits: int, first: int = 0) -> bytes:
    """RFC 7541, 5.1."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes((first | value,))
    parts = bytearray((first | most,))
    value -= most
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _text(value: bytes) -> bytes:
    return _integer(len(value), 7) + value


def _literal(name: bytes | int, value: bytes) -> bytes:
    """A field without indexing; a number names an entry of the static table (RFC 7541, 6.2.2)."""
    head = _integer(name, 4) if isinstance(name, int) else b"\x00" + _text(name)
    return head + _text(value)


_GRPC_HEAD = _STATUS_200 + _literal(_CONTENT_TYPE_NAME, b"application/grpc")
HEADERS = _GRPC_HEAD
"""The header block before a message."""
TRAILERS = _literal(b"grpc-status", b"0")
"""The trailers after a message."""


def status_trailers(status: int, message: str) -> bytes:
    block = _literal(b"grpc-status", b"%d" % status)
    return block + _literal(b"grpc-message", percent_encoded(message)) if message else block


def trailers_only(status: int, message: str) -> bytes:
    """A whole answer without a message, with END_STREAM."""
    return _GRPC_HEAD + status_trailers(status, message)


def unknown_encoding(encoding: str) -> bytes:
    """UNIMPLEMENTED that names what is accepted (gRPC's compression document)."""
    block = trailers_only(Status.UNIMPLEMENTED, f"grpc-encoding {encoding} is not supported")
    return block + _literal(b"grpc-accept-encoding", ACCEPTED_ENCODINGS)


METHOD_NOT_ALLOWED = _literal(_STATUS_NAME, b"405") + _literal(_ALLOW_NAME, b"POST")
UNSUPPORTED_MEDIA_TYPE = _literal(_STATUS_NAME, b"415")
