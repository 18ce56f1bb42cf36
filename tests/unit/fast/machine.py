"""A frame machine with a clock that stands still, and its peer."""

from __future__ import annotations

from kvcm_platform.metadata_service.limits import Unfinished
from kvcm_platform.metadata_service.transports.fast.connection import Connection
from kvcm_platform.metadata_service.transports.fast.events import Call, Cancelled
from kvcm_platform.metadata_service.transports.fast.limits import Limits
from kvcm_platform.metadata_service.transports.fast.messages import Refused

from .wire import ECHO, Caller, Reader, hello

TALK, WATCH = "/test.Echo/Talk", "/test.Echo/Watch"


class Talk:
    """Says a message as often as its first digit tells, one without a digit once; refuses 0, fails on !."""

    def __init__(self, *, is_open_ended: bool) -> None:
        self.is_open_ended = is_open_ended

    def reply(self, message: bytes) -> list[bytes]:
        if message[:1] == b"0":
            raise Refused(5, "nothing to say")
        if message[:1] == b"!":
            raise ValueError("not foreseen")
        return [message] * min(message[0] - 48 if message[:1].isdigit() else 1, 9)


ROUTES = {
    ECHO.encode(): "echo",
    TALK.encode(): Talk(is_open_ended=False),
    WATCH.encode(): Talk(is_open_ended=True),
}


class Machine:
    """Feeds a connection and reads what it sends. With `echo` every call is answered with its own message."""

    def __init__(
        self,
        *settings: tuple[int, int],
        greet: bool = True,
        echo: bool = True,
        unfinished: Unfinished | None = None,
        **limits: float,
    ):
        self.limits = Limits(**limits)  # type: ignore[arg-type]
        self.now = 100.0
        self.connection = Connection(
            ROUTES, self.limits, self.now, unfinished or Unfinished(self.limits.max_unfinished_bytes)
        )
        self.caller = Caller()
        self.reader = Reader()
        self.echo = echo
        self.calls: list[Call] = []
        self.cancelled: list[int] = []
        if greet:
            self.feed(hello(*settings))

    def feed(self, data: bytes) -> Machine:
        self._take(self.connection.receive(data, self.now))
        return self

    def tick(self, seconds: float) -> Machine:
        self.now += seconds
        self._take(self.connection.tick(self.now))
        return self

    def answer(self, stream: int, message: bytes) -> Machine:
        self.connection.answer(stream, message)
        return self.flush()

    def _take(self, events: list[Call | Cancelled]) -> None:
        for event in events:
            if isinstance(event, Cancelled):
                self.cancelled.append(event.stream_id)
            else:
                self._begin(event)
        self.flush()

    def _begin(self, call: Call) -> None:
        self.calls.append(call)
        if self.echo:
            self.connection.answer(call.stream_id, call.message)

    def flush(self) -> Machine:
        while data := self.connection.data_to_send():
            self.reader.feed(data)
        for call in self.connection.released():
            self._begin(call)
        return self

    def call(self, stream: int, body: bytes = b"", *changes: tuple[str, str | None]) -> Machine:
        return self.feed(self.caller.call(stream, body, *changes))
