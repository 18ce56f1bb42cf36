"""Frames that carry no call, what they cost, and the end of a connection (RFC 9113, 6.3 to 6.9)."""

from __future__ import annotations

from collections.abc import Callable

from . import frames
from .frames import (
    ACK,
    DEFAULT_FRAME_BYTES,
    DEFAULT_TABLE_BYTES,
    GOAWAY,
    LARGEST_FRAME_BYTES,
    MAX_WINDOW,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING,
    SETTINGS,
    ConnectionFault,
    ErrorCode,
    Setting,
)
from .limits import Budget, Limits
from .outflow import Outflow
from .stream import Stream

RESET_COST = 2.0
"""Credits of a stream that the peer resets: a call may have begun for it."""
FAULT_COST = 8.0
"""Credits of a stream error: it cost a header block, an answer and sometimes a call."""
MOST_IGNORED = 1024
MOST_SETTINGS = 32
DRAIN_PING = b"draining"

Reset = Callable[[int, ErrorCode | None], None]


class Control:
    """Of one connection. `reset` ends a stream, with RST_STREAM if it is given a code."""

    def __init__(
        self, limits: Limits, budget: Budget, outflow: Outflow, streams: dict[int, Stream], reset: Reset
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._outflow = outflow
        self._out = outflow.out
        self._streams = streams
        self._reset = reset
        self._ignored: dict[int, int] = {}
        self._drain_at: float | None = None
        self._final_stream_id: int | None = None
        self._is_peer_leaving = False
        self._has_no_table = False
        self.last_stream_id = 0
        self.has_settings = False

    @property
    def is_leaving(self) -> bool:
        return self._is_peer_leaving or self._final_stream_id is not None

    @property
    def is_draining(self) -> bool:
        return self._drain_at is not None

    def is_past_last(self, stream_id: int) -> bool:
        """Whether a stream came after the last one that GOAWAY named."""
        return self._final_stream_id is not None and stream_id > self._final_stream_id

    def ignore(self, stream_id: int, tolerated_bytes: int = 0) -> None:
        """What the peer sends on an ended stream before it knows is passed over (RFC 9113, 5.1 and 8.1).

        If more than `tolerated_bytes` come, it is told to stop; with 0 it has been told.
        """
        if len(self._ignored) >= MOST_IGNORED:
            del self._ignored[next(iter(self._ignored))]
        self._ignored[stream_id] = tolerated_bytes

    def is_ignored(self, stream_id: int, size: int, is_end: bool) -> bool:
        """Whether `size` bytes of a stream are passed over; with `is_end` nothing follows."""
        left = self._ignored.get(stream_id)
        if left is None:
            return False
        if is_end:
            del self._ignored[stream_id]
        elif left:
            self._ignored[stream_id] = left = max(left - size, 0)
            if not left:
                self._out.append(frames.rst_stream(stream_id, ErrorCode.NO_ERROR))
        return True

    def charge_reset(self, code: ErrorCode | None) -> None:
        is_ours = code is not None and code not in (ErrorCode.REFUSED_STREAM, ErrorCode.CANCEL)
        self._budget.charge(FAULT_COST if is_ours else RESET_COST)

    def greet(self) -> None:
        """The server's preface: its settings and its window."""
        limits = self._limits
        values = {
            Setting.MAX_CONCURRENT_STREAMS: limits.max_streams,
            Setting.INITIAL_WINDOW_SIZE: limits.stream_window,
            Setting.MAX_FRAME_SIZE: limits.max_frame_bytes,
            Setting.MAX_HEADER_LIST_SIZE: limits.max_header_list_bytes,
        }
        self._out.append(frames.settings(values))
        if limits.connection_window > frames.DEFAULT_WINDOW:
            self._out.append(frames.window_update(0, limits.connection_window - frames.DEFAULT_WINDOW))

    def drain(self, now: float) -> None:
        """First half of a graceful end: calls on their way when the peer reads this still count."""
        if self._drain_at is None:
            self._drain_at = now
            self._out.append(frames.goaway(MAX_WINDOW, ErrorCode.NO_ERROR))
            self._out.append(frames.ping(DRAIN_PING))

    def _finish_drain(self) -> None:
        if self._final_stream_id is None:
            self._final_stream_id = self.last_stream_id
            self._out.append(frames.goaway(self.last_stream_id, ErrorCode.NO_ERROR))

    def tick(self, now: float) -> None:
        if self._drain_at is not None and now - self._drain_at >= self._limits.drain_ping_seconds:
            self._finish_drain()

    def on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == PING:
            self._on_ping(flags, stream_id, payload)
        elif kind == SETTINGS:
            self._on_settings(flags, stream_id, payload)
        elif kind == RST_STREAM:
            self._on_rst_stream(stream_id, payload)
        elif kind == GOAWAY:
            self._on_goaway(stream_id, payload)
        elif kind == PRIORITY:
            self._on_priority(stream_id, payload)
        elif kind == PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client does not push")
        else:
            self._budget.charge(1)

    def on_window_update(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE has four bytes")
        self._budget.charge(1)
        increment = int.from_bytes(payload, "big") & MAX_WINDOW
        if stream_id == 0:
            if not increment:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window cannot grow by 0")
            self._outflow.window += increment
            if self._outflow.window > MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is too large")
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
        elif not increment:
            self._reset(stream_id, ErrorCode.PROTOCOL_ERROR)
        else:
            stream.window += increment
            if stream.window > MAX_WINDOW:
                self._reset(stream_id, ErrorCode.FLOW_CONTROL_ERROR)

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        _check_connection_frame(stream_id)
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING has eight bytes")
        self._budget.charge(1)
        if not flags & ACK:
            self._out.append(frames.ping(payload, ack=True))
        elif payload == DRAIN_PING and self._drain_at is not None:
            self._finish_drain()

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        _check_connection_frame(stream_id)
        if len(payload) % SETTING.size or (flags & ACK and payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
        if flags & ACK:
            if not self.has_settings:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame acknowledges SETTINGS")
            self._budget.charge(1)
            return
        if len(payload) > MOST_SETTINGS * SETTING.size:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many settings in a frame")
        # A change of the initial window touches every open stream.
        self._budget.charge(1 + len(self._streams) / 16)
        self.has_settings = True
        for name, value in SETTING.iter_unpack(payload):
            if name == Setting.INITIAL_WINDOW_SIZE:
                self._outflow.set_initial_window(value)
            elif name == Setting.MAX_FRAME_SIZE:
                if not DEFAULT_FRAME_BYTES <= value <= LARGEST_FRAME_BYTES:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
                self._outflow.frame_bytes = value
            elif name == Setting.HEADER_TABLE_SIZE and value < DEFAULT_TABLE_BYTES and not self._has_no_table:
                # A smaller table must be announced, though we never put anything in (RFC 7541, 4.2).
                self._has_no_table = self._outflow.must_empty_table = True
            elif name == Setting.ENABLE_PUSH and value > 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
        self._out.append(frames.SETTINGS_ACK)

    def _on_rst_stream(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM has four bytes")
        self._check_known(stream_id)
        self._reset(stream_id, None)

    def _on_goaway(self, stream_id: int, payload: bytes) -> None:
        _check_connection_frame(stream_id)
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is too short")
        self._budget.charge(1)
        self._is_peer_leaving = True

    def _on_priority(self, stream_id: int, payload: bytes) -> None:
        self._budget.charge(1)
        if stream_id == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY belongs to a stream")
        if len(payload) != 5:
            self._reset(stream_id, ErrorCode.FRAME_SIZE_ERROR)

    def _check_known(self, stream_id: int) -> None:
        if not stream_id & 1 or stream_id > self.last_stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame on a stream that is not open")


def _check_connection_frame(stream_id: int) -> None:
    if stream_id:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of the connection on a stream")
