"""One HTTP/2 connection of a server, restricted to unary gRPC: bytes in, events and bytes out, no I/O.

`receive` never raises on what a peer sends: a connection error (RFC 9113, 5.4.1) becomes GOAWAY and
`is_closed`, a stream error RST_STREAM, and whatever gRPC can express a status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...limits import Unfinished
from . import answers, frames
from .admission import Admission
from .control import Control
from .conversations import Conversations
from .events import Call, Cancelled, Event
from .frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADER,
    HEADER_BYTES,
    HEADERS,
    PADDED,
    PREFACE,
    PRIORITIZED,
    SETTINGS,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
)
from .intake import Intake
from .limits import Budget, Limits
from .messages import Refused, Status, larger_than
from .outflow import Outflow
from .request_head import HeadReader
from .stream import Stream, StreamFault

LEAVING = "the server is shutting down"
TOLERATED_BYTES = 64 << 10
"""How much of a request may follow its answer before the peer is told to stop."""
SMALL_DATA_BYTES = 256
"""DATA below this size that ends nothing costs a credit."""


class Connection:
    """Its owner gives it bytes (`receive`), answers (`answer`, `refuse`) and, once a second, time (`tick`).

    After each of them the owner writes `data_to_send`.
    """

    def __init__(
        self, routes: Mapping[bytes, Any], limits: Limits, now: float, unfinished: Unfinished
    ) -> None:
        """`unfinished` is shared by all connections of the process."""
        self._limits = limits
        self._now = now
        self._streams: dict[int, Stream] = {}
        self._heads = HeadReader(routes, limits)
        self._budget = Budget(limits, now)
        self._intake = Intake(limits, unfinished)
        self._outflow = Outflow(self._streams)
        self._admission = Admission(limits, self._outflow, self._streams, unfinished)
        self._conversations = Conversations(limits, self._budget, self._outflow)
        self._control = Control(limits, self._budget, self._outflow, self._streams, self._reset)
        self._out = self._outflow.out
        self._events: list[Event] = []
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes = len(PREFACE)
        self._has_preface = False
        self._block_stream = 0
        self._block_flags = 0
        self._block_parts: list[bytes] = []
        self._started_at = self._frame_at = now
        self.is_closed = False
        """No further byte is read; what is in the output still goes out."""
        self.fault: ConnectionFault | None = None
        """Why the peer was sent away."""
        self._control.greet()

    @property
    def is_finished(self) -> bool:
        """Nothing more will come of it: write what is left and close."""
        return self.is_closed or (self._control.is_leaving and not self._streams)

    @property
    def has_calls(self) -> bool:
        return bool(self._streams)

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Takes what was read from the peer. Time is in seconds, on any clock that does not go back."""
        events = self._events = []
        if self.is_closed:
            return events
        self._set_time(now)
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed_bytes:
                return events
            data = b"".join(self._held)
            self._held.clear()
        try:
            self._parse(data)
        except ConnectionFault as fault:
            self._fail(fault)
        return events

    def data_to_send(self) -> bytes:
        """What to write now; call again until it is empty or the socket asks to pause."""
        if not self._out:
            if self._outflow.is_idle:
                return b""
            self._outflow.pump()
        data = b"".join(self._out)
        self._out.clear()
        return data

    def pause(self) -> None:
        """The socket takes no more: answers queue."""
        self._outflow.is_paused = True

    def resume(self) -> None:
        self._outflow.is_paused = False

    def answer(self, stream_id: int, message: bytes) -> None:
        """The answer of a call; nothing happens if its stream is gone."""
        stream = self._streams.get(stream_id)
        if stream is None or not stream.has_begun:
            return
        if len(message) > self._limits.max_message_bytes:
            self.refuse(stream_id, Status.RESOURCE_EXHAUSTED, larger_than(self._limits.max_message_bytes))
            return
        self._admission.end(stream)
        self._admission.learn(len(message))
        self._outflow.answer(stream, message)

    def refuse(self, stream_id: int, status: int, message: str) -> None:
        """Ends a call with a gRPC status; nothing happens if its stream is gone or answered."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.rest is None:
            self._admission.end(stream)
            self._refuse(stream, Refused(status, message))

    def released(self) -> list[Call]:
        """Calls that had to wait for others and may begin now."""
        return self._admission.released()

    def drain(self, now: float) -> None:
        """Asks the peer to go: calls that it has sent are still carried out (RFC 9113, 6.8)."""
        if self._has_preface:
            self._control.drain(now)
            for stream in [one for one in self._streams.values() if one.head.is_conversation]:
                self._refuse(stream, Refused(Status.UNAVAILABLE, LEAVING))
        else:
            self.is_closed = True

    def forget(self) -> None:
        """The peer is gone; this is called last."""
        self._intake.forget()
        self._admission.forget()

    def tick(self, now: float) -> list[Event]:
        """Enforces the times; about once a second."""
        limits = self._limits
        events = self._events = []
        if not self._control.has_settings:
            self.is_closed = self.is_closed or now - self._started_at > limits.preface_seconds
            return events
        self._set_time(now)
        self._control.tick(now)
        if self._block_stream and now - self._frame_at > limits.preface_seconds:
            self.is_closed = True
        elif not self._streams and now - self._frame_at > limits.idle_seconds:
            self._control.drain(now)
        try:
            for stream in list(self._streams.values()):
                self._check_times(stream)
        except ConnectionFault as fault:
            self._fail(fault)
        return events

    def _set_time(self, now: float) -> None:
        self._now = now
        self._budget.left += self._outflow.earned
        self._outflow.earned = 0.0
        self._budget.refill(now)

    def _fail(self, fault: ConnectionFault) -> None:
        self._out.append(frames.goaway(self._control.last_stream_id, fault.code, fault.reason))
        self.is_closed = True
        self.fault = fault

    def _check_times(self, stream: Stream) -> None:
        limits = self._limits
        if stream.has_progress:
            stream.has_progress = False
            stream.touched_at = self._now
        age = self._now - stream.touched_at
        if stream.rest is not None:
            if age > limits.stall_seconds:
                self._reset(stream.id, ErrorCode.CANCEL)
        elif stream.deadline is not None and self._now > stream.deadline:
            self._cancel(stream)
            self.refuse(stream.id, Status.DEADLINE_EXCEEDED, "the deadline has passed")
        elif not stream.has_ended and age > limits.body_seconds:
            self._reset(stream.id, ErrorCode.CANCEL)

    def _parse(self, data: bytes) -> None:
        at, end = 0, len(data)
        if not self._has_preface:
            if data[: len(PREFACE)] != PREFACE[:end]:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no HTTP/2 preface")
            if end < len(PREFACE):
                self._hold(data, len(PREFACE))
                return
            self._has_preface = True
            at = len(PREFACE)
        unpack = HEADER.unpack_from
        most = self._limits.max_frame_bytes
        while end - at >= HEADER_BYTES:
            high, low, kind, flags, stream_id = unpack(data, at)
            length = high << 8 | low
            if length > most:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is too large")
            stop = at + HEADER_BYTES + length
            if stop > end:
                self._hold(data[at:], HEADER_BYTES + length)
                return
            payload = data[at + HEADER_BYTES : stop]
            at = stop
            stream_id &= 0x7FFFFFFF
            self._frame_at = self._now
            if self._block_stream:
                if kind != CONTINUATION or stream_id != self._block_stream:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION is missing")
                self._on_continuation(flags, payload)
            elif kind == DATA:
                self._on_data(flags, stream_id, payload)
            elif kind == HEADERS:
                self._on_headers(flags, stream_id, payload)
            elif kind == WINDOW_UPDATE:
                self._control.on_window_update(stream_id, payload)
            elif kind == CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            else:
                self._control.on_frame(kind, flags, stream_id, payload)
            if kind != SETTINGS and not self._control.has_settings:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if at < end:
            self._hold(data[at:], HEADER_BYTES)

    def _hold(self, data: bytes, needed: int) -> None:
        """Keeps a piece of a frame; it is looked at again when all of the frame is there."""
        self._held.append(data)
        self._held_bytes = len(data)
        self._needed_bytes = needed

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & PADDED:
            payload = frames.without_padding(payload)
        if flags & PRIORITIZED:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without its priority")
            payload = payload[5:]
        if len(payload) > self._limits.max_header_block_bytes:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if not stream_id & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS on a stream that is no client's")
        if flags & END_HEADERS:
            self._on_block(flags, stream_id, payload)
        else:
            self._block_stream = stream_id
            self._block_flags = flags
            self._block_parts = [payload]

    def _on_continuation(self, flags: int, payload: bytes) -> None:
        parts = self._block_parts
        parts.append(payload)
        limits = self._limits
        size = sum(map(len, parts))
        if len(parts) > limits.max_continuations + 1 or size > limits.max_header_block_bytes:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & END_HEADERS:
            stream_id, self._block_stream = self._block_stream, 0
            self._block_parts = []
            self._on_block(self._block_flags, stream_id, b"".join(parts))

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        control = self._control
        if stream_id <= control.last_stream_id:
            self._on_trailers(flags, stream_id, block)
            return
        control.last_stream_id = stream_id
        head = self._heads.read(block)
        if head.malformed:
            self._reset(stream_id, ErrorCode.PROTOCOL_ERROR, has_ended=bool(flags & END_STREAM))
            return
        if len(self._streams) >= self._limits.max_streams or control.is_past_last(stream_id):
            self._reset(stream_id, ErrorCode.REFUSED_STREAM, has_ended=bool(flags & END_STREAM))
            return
        stream = Stream(stream_id, head, self._outflow.initial_window, self._now)
        self._streams[stream_id] = stream
        stream.has_ended = bool(flags & END_STREAM)
        if head.refusal is not None and (head.is_grpc or stream.has_ended):
            self._end(stream, head.refusal)
        elif stream.has_ended:
            self._take(stream, b"", 0, True)

    def _on_trailers(self, flags: int, stream_id: int, block: bytes) -> None:
        is_sound = self._heads.read_trailers(block)
        stream = self._streams.get(stream_id)
        if stream is None:
            if not self._control.is_ignored(stream_id, 0, bool(flags & END_STREAM)):
                raise ConnectionFault(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")
        elif stream.has_ended:
            self._reset(stream_id, ErrorCode.STREAM_CLOSED)
        elif not flags & END_STREAM or not is_sound:
            self._reset(stream_id, ErrorCode.PROTOCOL_ERROR)
        else:
            stream.has_ended = True
            self._take(stream, b"", 0, True)

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        flow_bytes = len(payload)
        if increment := self._intake.spend(flow_bytes):
            self._out.append(frames.window_update(0, increment))
        if flags & PADDED:
            payload = frames.without_padding(payload)
        is_end = flags & END_STREAM
        if not is_end and flow_bytes < SMALL_DATA_BYTES:
            self._budget.charge(1)
        stream = self._streams.get(stream_id)
        if stream is None:
            if stream_id > self._control.last_stream_id or not stream_id & 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA on a stream that is not open")
            if not self._control.is_ignored(stream_id, flow_bytes, bool(is_end)):
                self._reset(stream_id, ErrorCode.STREAM_CLOSED)
        elif stream.has_ended:
            self._reset(stream_id, ErrorCode.STREAM_CLOSED)
        else:
            stream.has_ended = bool(is_end)
            self._take(stream, payload, flow_bytes, stream.has_ended)

    def _take(self, stream: Stream, payload: bytes, flow_bytes: int, is_end: bool) -> None:
        refusal = stream.head.refusal
        if refusal is not None:
            # Clients of plain HTTP, curl 7 among them, want to have sent all before they are answered.
            stream.received += flow_bytes
            if is_end or stream.received > TOLERATED_BYTES:
                self._end(stream, refusal)
            return
        try:
            if stream.head.is_conversation:
                if self._control.is_draining:
                    raise Refused(Status.UNAVAILABLE, LEAVING)
                self._conversations.take(stream, payload, flow_bytes, is_end)
                return
            message = self._intake.take(stream, payload, flow_bytes, is_end)
        except Refused as refused:
            self._refuse(stream, refused)
            return
        except StreamFault as fault:
            self._reset(stream.id, fault.code)
            return
        if message is None:
            stream.has_progress = True
            return
        head = stream.head
        call = Call(stream.id, head.route, message, stream.is_compressed, head.credentials, stream.deadline)
        if self._admission.begin(stream, call):
            self._events.append(call)
            return
        try:
            self._admission.wait(call, self._intake.unread_bytes)
        except Refused as refused:
            self._refuse(stream, refused)

    def _refuse(self, stream: Stream, refused: Refused) -> None:
        if stream.has_head:
            # Of a conversation: its headers are out, what was not sent of it is not needed any more.
            self._outflow.forget(stream)
            self._end(stream, answers.status_trailers(refused.status, refused.message))
        else:
            self._end(stream, answers.trailers_only(refused.status, refused.message))

    def _end(self, stream: Stream, block: bytes) -> None:
        """Answers with a header block alone; the rest of a request that is being sent is passed over."""
        self._outflow.block(stream.id, block)
        self._intake.drop(stream)
        del self._streams[stream.id]
        if not stream.has_ended:
            self._control.ignore(stream.id, TOLERATED_BYTES)

    def _reset(self, stream_id: int, code: ErrorCode | None, *, has_ended: bool = True) -> None:
        """Ends a stream without an answer; without a code because the peer has."""
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            has_ended = stream.has_ended
            self._cancel(stream)
            self._intake.drop(stream)
            self._outflow.forget(stream)
        if code is not None:
            self._out.append(frames.rst_stream(stream_id, code))
            if not has_ended:
                self._control.ignore(stream_id)
        self._control.charge_reset(code)

    def _cancel(self, stream: Stream) -> None:
        if self._admission.end(stream):
            self._events.append(Cancelled(stream.id))
