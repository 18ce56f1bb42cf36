"""The sending half of a connection: answers, and what waits for the peer's windows (RFC 9113, 5.2)."""

from __future__ import annotations

from . import answers, frames
from .frames import (
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADER,
    HEADERS,
    MAX_WINDOW,
    ConnectionFault,
    ErrorCode,
)
from .messages import PREFIX_BYTES
from .stream import Stream, StreamFault

ANSWER_CREDITS = 16
"""What an answered call earns: clients send a few WINDOW_UPDATEs and now and then a PING with each."""
BYTES_A_CREDIT = 256
SLICE_BYTES = 1 << 20
"""Queued bytes given to the socket at a time; between slices it may ask to pause."""
MOST_UNREAD_BYTES = 1 << 20
"""Of a conversation's answer; who asks on without reading is cut off."""
TURN_BYTES = 256 << 10
"""What one stream sends before the next one's turn."""

EMPTY_TABLE = b"\x20"
"""A dynamic table size update to 0 (RFC 7541, 6.3)."""
_HEADERS = answers.HEADERS
_HEADERS_START = len(_HEADERS).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS))
_TRAILERS = answers.TRAILERS
_TRAILERS_START = len(_TRAILERS).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS | END_STREAM))


class Outflow:
    """Collects frames in `out`. A stream's answer leaves at once where the windows allow, else it queues.

    A stream whose answer has left is taken out of `streams`.
    """

    def __init__(self, streams: dict[int, Stream]) -> None:
        self._streams = streams
        self.out: list[bytes | memoryview] = []
        self.window = DEFAULT_WINDOW
        self.initial_window = DEFAULT_WINDOW
        self.frame_bytes = DEFAULT_FRAME_BYTES
        self.is_paused = False
        self.queued_bytes = 0
        self.earned = 0.0
        self.must_empty_table = False
        """The next header block must begin with the news that our dynamic table is empty."""
        self._queue: dict[int, Stream] = {}

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def answer(self, stream: Stream, message: bytes) -> None:
        """Sends a message with status OK."""
        size = len(message) + PREFIX_BYTES
        number = stream.id.to_bytes(4, "big")
        if (
            size <= self.frame_bytes
            and size <= self.window
            and size <= stream.window
            and not self._queue
            and not self.is_paused
        ):
            self.window -= size
            self.earned += ANSWER_CREDITS
            out = self.out
            out.append(
                (self._head(number) if self.must_empty_table else _HEADERS_START + number + _HEADERS)
                + HEADER.pack(size >> 8, size & 0xFF, DATA, 0, stream.id)
                + b"\x00"
                + (size - PREFIX_BYTES).to_bytes(4, "big")
            )
            out.append(message)
            out.append(_TRAILERS_START + number + _TRAILERS)
            del self._streams[stream.id]
            return
        self.out.append(self._head(number))
        prefix = b"\x00" + (size - PREFIX_BYTES).to_bytes(4, "big")
        if self.window >= PREFIX_BYTES <= stream.window and not self._queue and not self.is_paused:
            # The prefix in a frame of its own spares a copy of the message.
            self.out.append(frames.frame(DATA, 0, stream.id, prefix))
            self.window -= PREFIX_BYTES
            stream.window -= PREFIX_BYTES
            stream.rest = memoryview(message)
        else:
            stream.rest = memoryview(prefix + message)
        self._queue[stream.id] = stream
        self.queued_bytes += len(stream.rest)
        self.pump()

    def _head(self, number: bytes) -> bytes:
        """The frame of headers before a message."""
        if not self.must_empty_table:
            return _HEADERS_START + number + _HEADERS
        self.must_empty_table = False
        return frames.frame(HEADERS, END_HEADERS, int.from_bytes(number, "big"), EMPTY_TABLE + _HEADERS)

    def say(self, stream: Stream, message: bytes) -> None:
        """One message of a conversation. Raises StreamFault for a peer that does not read them."""
        if not stream.has_head:
            stream.has_head = True
            self.out.append(self._head(stream.id.to_bytes(4, "big")))
        data = b"\x00" + len(message).to_bytes(4, "big") + message
        rest = data if stream.rest is None else bytes(stream.rest) + data
        if len(rest) > MOST_UNREAD_BYTES:
            raise StreamFault(ErrorCode.ENHANCE_YOUR_CALM)
        stream.rest = memoryview(rest)
        self.queued_bytes += len(data)
        self._queue[stream.id] = stream
        self.pump()

    def finish(self, stream: Stream, trailers: bytes) -> None:
        """Ends a conversation when all of its answer is sent."""
        if not stream.has_head:
            stream.has_head = True
            self.out.append(self._head(stream.id.to_bytes(4, "big")))
        stream.trailers = trailers
        if stream.rest is None:
            self._trail(stream)

    def _trail(self, stream: Stream) -> None:
        """The last frame of an answer; a conversation that goes on has none yet."""
        if stream.head.is_conversation:
            if stream.trailers is None:
                return
            self.block(stream.id, stream.trailers)
        else:
            self.out.append(_TRAILERS_START + stream.id.to_bytes(4, "big") + _TRAILERS)
        self.earned += ANSWER_CREDITS
        del self._streams[stream.id]

    def block(self, stream_id: int, block: bytes) -> None:
        """An answer without a message: one header block that ends the stream."""
        self.earned += ANSWER_CREDITS / 4
        if self.must_empty_table:
            self.must_empty_table = False
            block = EMPTY_TABLE + block
        size = self.frame_bytes
        kind, flags = HEADERS, END_STREAM
        for at in range(0, len(block), size):
            part = block[at : at + size]
            if at + size >= len(block):
                flags |= END_HEADERS
            self.out.append(frames.frame(kind, flags, stream_id, part))
            kind, flags = frames.CONTINUATION, 0

    def forget(self, stream: Stream) -> None:
        """Drops what of an answer has not been sent."""
        if self._queue.pop(stream.id, None) is not None and stream.rest is not None:
            self.queued_bytes -= len(stream.rest)
            stream.rest = None

    def pump(self) -> None:
        """Moves queued bytes to `out`: about one slice, streams in turn."""
        left = SLICE_BYTES
        has_moved = True
        while has_moved and left > 0:
            has_moved = False
            for stream in list(self._queue.values()):
                if self.is_paused or self.window <= 0 or left <= 0:
                    return
                size = self._send_some(stream)
                left -= size
                has_moved = has_moved or size > 0

    def _send_some(self, stream: Stream) -> int:
        """What the windows let through of one stream's answer, at most a turn; how many bytes that was."""
        rest = stream.rest
        if rest is None or stream.window <= 0:
            return 0
        size = min(len(rest), self.window, stream.window, TURN_BYTES)
        most = self.frame_bytes
        out = self.out
        for at in range(0, size, most):
            part = rest[at : min(at + most, size)]
            length = len(part)
            out.append(HEADER.pack(length >> 8, length & 0xFF, DATA, 0, stream.id))
            out.append(part)
        self.window -= size
        stream.window -= size
        stream.has_progress = True
        self.queued_bytes -= size
        self.earned += size / BYTES_A_CREDIT
        del self._queue[stream.id]
        if size == len(rest):
            stream.rest = None
            self._trail(stream)
        else:
            stream.rest = rest[size:]
            # At the end of the queue: a small connection window is shared in turn, too.
            self._queue[stream.id] = stream
        return size

    def set_initial_window(self, value: int) -> None:
        """SETTINGS_INITIAL_WINDOW_SIZE moves the window of every open stream (RFC 9113, 6.9.2)."""
        if value > MAX_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the initial window is too large")
        change = value - self.initial_window
        self.initial_window = value
        for stream in self._streams.values():
            stream.window += change
            if stream.window > MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window is too large")
