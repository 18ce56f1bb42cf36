"""A raw HTTP/2 client over a socket, which does as it is told."""

from __future__ import annotations

import socket
import ssl
import time

from tests.unit.fast.wire import PING, Answer, Caller, Reader, frame, hello


class Adversary:
    """Connects and greets. `tls` wraps the socket; `receive_bytes` sets a small receive buffer."""

    def __init__(
        self,
        port: int,
        *settings: tuple[int, int],
        greet: bool = True,
        tls: ssl.SSLContext | None = None,
        receive_bytes: int = 0,
    ) -> None:
        plain = socket.socket()
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.settimeout(40)
        plain.connect(("127.0.0.1", port))
        self.socket = tls.wrap_socket(plain, server_hostname="localhost") if tls else plain
        self.caller = Caller()
        self.reader = Reader()
        self.is_ended = False
        if greet:
            self.send(hello(*settings))

    def __enter__(self) -> Adversary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def flood(self, data: bytes, most_bytes: int = 50 << 20) -> int:
        """Sends the same again and again until the server ends it; how many bytes that took."""
        sent = 0
        try:
            while sent < most_bytes:
                self.socket.sendall(data)
                sent += len(data)
        except OSError:
            pass
        self.read(lambda: False)
        return sent

    def read(self, condition, seconds: float = 10) -> None:
        """Reads until the condition holds, the time is over, or the server has ended the connection."""
        deadline = time.monotonic() + seconds
        while not condition() and not self.is_ended:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                return
            except OSError:
                self.is_ended = True
                return
            self.is_ended = not data
            self.reader.feed(data)

    def answer(self, stream: int, seconds: float = 10) -> Answer:
        found = self.reader.answers.setdefault(stream, Answer())
        self.read(lambda: found.is_ended or found.reset is not None, seconds)
        return found

    def ping(self) -> None:
        """Returns when everything sent before has been understood."""
        count = len(self.reader.of(PING))
        self.send(frame(PING, 0, 0, b"are you?"))
        self.read(lambda: len(self.reader.of(PING)) > count)
        assert len(self.reader.of(PING)) > count

    def is_cut_off(self, seconds: float = 10) -> bool:
        self.read(lambda: False, seconds)
        return self.is_ended
