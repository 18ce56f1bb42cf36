"""One request from its headers to the end of its answer."""

from __future__ import annotations

from .frames import ErrorCode
from .request_head import Head


class StreamFault(Exception):
    """A stream error (RFC 9113, 5.4.2): it is answered with RST_STREAM."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Stream:
    """`window` is what the peer still takes of the answer, from the start of the stream on."""

    __slots__ = (
        "body",
        "deadline",
        "expected",
        "has_begun",
        "has_ended",
        "has_head",
        "has_progress",
        "head",
        "id",
        "is_compressed",
        "partial",
        "received",
        "rest",
        "touched_at",
        "trailers",
        "window",
    )

    def __init__(self, stream_id: int, head: Head, window: int, now: float) -> None:
        self.id = stream_id
        self.head = head
        self.window = window
        self.deadline = None if head.timeout is None else now + head.timeout
        self.body: bytearray | None = None
        self.expected = 0
        """Bytes of the message with its prefix, once the prefix is there."""
        self.received = 0
        """Bytes of DATA with padding: what the stream's receive window has given."""
        self.is_compressed = False
        self.has_ended = False
        """The request is whole."""
        self.has_begun = False
        """The call was handed out and its answer has not come back."""
        self.partial: bytearray | None = None
        """What has come of a conversation's next message."""
        self.has_head = False
        """The headers of a conversation's answer have left."""
        self.trailers: bytes | None = None
        """What ends a conversation when all of its answer is sent."""
        self.rest: memoryview | None = None
        """What of the answer has not been sent."""
        self.has_progress = False
        self.touched_at = now
        """When it began, later when a check last saw progress."""
