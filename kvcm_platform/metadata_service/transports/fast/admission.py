"""Which calls of a connection run, and which wait: the answers that it may hold in memory are bounded."""

from __future__ import annotations

from collections import deque

from ...limits import Unfinished
from .events import Call
from .limits import Limits
from .messages import Refused, Status
from .outflow import Outflow
from .stream import Stream


class Admission:
    """Counts running calls and expects of each an answer as large as the last ones were."""

    def __init__(
        self, limits: Limits, outflow: Outflow, streams: dict[int, Stream], unfinished: Unfinished
    ) -> None:
        self._max_unread_bytes = limits.max_unread_bytes
        self._unfinished = unfinished
        self._max_running = limits.max_running
        self._max_queued_bytes = limits.max_queued_bytes
        self._outflow = outflow
        self._streams = streams
        self._waiting: deque[Call] = deque()
        self._running = 0
        self._answer_bytes = 0
        self.waiting_bytes = 0

    def begin(self, stream: Stream, call: Call) -> bool:
        """Whether the call runs now; otherwise it may `wait`."""
        if self._waiting or self._is_full():
            return False
        stream.has_begun = True
        self._running += 1
        return True

    def wait(self, call: Call, unread_bytes: int) -> None:
        """Queues a call, which `released` gives later.

        Raises Refused when too much waits beside the `unread_bytes` of requests that are not whole.
        """
        size = len(call.message)
        if unread_bytes + self.waiting_bytes + size > self._max_unread_bytes:
            raise Refused(Status.RESOURCE_EXHAUSTED, "too many bytes of calls that wait")
        if self._unfinished.size + size > self._unfinished.most:
            raise Refused(Status.RESOURCE_EXHAUSTED, self._unfinished.refusal)
        self._waiting.append(call)
        self._count(size)

    def forget(self) -> None:
        """The connection is gone: nothing waits any more."""
        self._waiting.clear()
        self._count(-self.waiting_bytes)

    def _count(self, size: int) -> None:
        self.waiting_bytes += size
        self._unfinished.size += size

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
            self._count(-len(call.message))
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
