"""The receiving half of a connection: request bodies and the windows they use up (RFC 9113, 5.2)."""

from __future__ import annotations

from ...limits import Unfinished
from .frames import DEFAULT_WINDOW, ConnectionFault, ErrorCode
from .limits import Limits
from .messages import PREFIX_BYTES, Refused, Status, larger_than
from .stream import Stream, StreamFault


class Intake:
    """Gathers the one message of each stream. Bytes count as unread until their call begins."""

    def __init__(self, limits: Limits, unfinished: Unfinished) -> None:
        self._unfinished = unfinished
        self._max_message_bytes = limits.max_message_bytes
        self._max_unread_bytes = limits.max_unread_bytes
        self._stream_window = limits.stream_window
        self._full_window = max(limits.connection_window, DEFAULT_WINDOW)
        self.window = self._full_window
        self.unread_bytes = 0

    def spend(self, size: int) -> int:
        """Uses `size` bytes of the connection's window; the increment to give back, if it is time to."""
        self.window -= size
        if self.window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
        if self.window > self._full_window >> 1:
            return 0
        increment = self._full_window - self.window
        self.window = self._full_window
        return increment

    def take(self, stream: Stream, payload: bytes, flow_bytes: int, is_end: bool) -> bytes | None:
        """Adds DATA; the message when it is whole. Raises Refused (a status) or StreamFault (a reset)."""
        body = stream.body
        if body is None:
            if is_end and len(payload) >= PREFIX_BYTES and stream.head.content_length is None:
                # The usual call: all of the message in one frame.
                size = int.from_bytes(payload[1:PREFIX_BYTES], "big")
                if not payload[0] and len(payload) == size + PREFIX_BYTES and size <= self._max_message_bytes:
                    return payload[PREFIX_BYTES:]
            body = stream.body = bytearray()
        stream.received += flow_bytes
        if stream.received > self._stream_window:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR)
        body += payload
        self.unread_bytes += len(payload)
        self._unfinished.size += len(payload)
        self._check(stream, body)
        return self._whole(stream, body) if is_end else None

    def drop(self, stream: Stream) -> None:
        """Forgets what was gathered."""
        if stream.body is not None:
            self.unread_bytes -= len(stream.body)
            self._unfinished.size -= len(stream.body)
            stream.body = None

    def forget(self) -> None:
        """The connection is gone, and nothing of it is held."""
        self._unfinished.size -= self.unread_bytes
        self.unread_bytes = 0

    def _check(self, stream: Stream, body: bytearray) -> None:
        if not stream.expected and len(body) >= PREFIX_BYTES:
            if body[0] > 1:
                raise Refused(Status.INTERNAL, f"a message cannot begin with byte {body[0]}")
            if body[0] and not stream.head.is_gzip:
                raise Refused(Status.INTERNAL, "a compressed message without grpc-encoding")
            size = int.from_bytes(body[1:PREFIX_BYTES], "big")
            if size > self._max_message_bytes:
                raise Refused(Status.RESOURCE_EXHAUSTED, larger_than(self._max_message_bytes))
            stream.expected = size + PREFIX_BYTES
        if stream.expected and len(body) > stream.expected:
            raise Refused(Status.UNIMPLEMENTED, "the method takes exactly one message")
        if self.unread_bytes > self._max_unread_bytes:
            raise Refused(Status.RESOURCE_EXHAUSTED, "too many bytes of unfinished requests")
        if self._unfinished.is_full:
            raise Refused(Status.RESOURCE_EXHAUSTED, self._unfinished.refusal)

    def _whole(self, stream: Stream, body: bytearray) -> bytes:
        length = stream.head.content_length
        if length is not None and length != len(body):
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)
        if not body:
            raise Refused(Status.UNIMPLEMENTED, "the method takes exactly one message")
        if len(body) != stream.expected:
            raise Refused(Status.INTERNAL, "the message is shorter than its prefix says")
        stream.is_compressed = bool(body[0])
        message = bytes(memoryview(body)[PREFIX_BYTES:])
        self.drop(stream)
        return message
