"""Which calls of a connection run, and which wait: the answers that it may hold in memory are bounded."""

from __future__ import annotations

from collections import deque

from .events import Call
from .limits import Limits
from .outflow import Outflow
from .stream import Stream


class Admission:
    """Counts running calls and expects of each an answer as large as the last ones were."""

    def __init__(self, limits: Limits, outflow: Outflow, streams: dict[int, Stream]) -> None:
        self._max_running = limits.max_running
        self._max_queued_bytes = limits.max_queued_bytes
        self._outflow = outflow
        self._streams = streams
        self._waiting: deque[Call] = deque()
        self._running = 0
        self._answer_bytes = 0
        self.waiting_bytes = 0

    def begin(self, stream: Stream, call: Call) -> bool:
        """Whether the call runs now; otherwise `released` gives it later."""
        if self._waiting or self._is_full():
            self._waiting.append(call)
            self.waiting_bytes += len(call.message)
            return False
        stream.has_begun = True
        self._running += 1
        return True

    def end(self, stream: Stream) -> bool:
        """Whether the stream's call was running; it no longer is."""
        if not stream.has_begun:
            return False
        stream.has_begun = False
        self._running -= 1
        return True

    def learn(self, size: int) -> None:
        """The size of an answer."""
        known = self._answer_bytes
        self._answer_bytes = size if size > known else (known * 7 + size) >> 3

    def released(self) -> list[Call]:
        """Waiting calls that may begin now. Calls of streams that have ended meanwhile are dropped."""
        calls = []
        while self._waiting and not self._is_full():
            call = self._waiting.popleft()
            self.waiting_bytes -= len(call.message)
            stream = self._streams.get(call.stream_id)
            if stream is not None:
                stream.has_begun = True
                self._running += 1
                calls.append(call)
        return calls

    def _is_full(self) -> bool:
        queued = self._outflow.queued_bytes
        running = self._running
        if running >= self._max_running or queued > self._max_queued_bytes:
            return True
        return running > 0 and queued + running * self._answer_bytes > self._max_queued_bytes
