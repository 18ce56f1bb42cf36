"""One life of the process that holds a client of Mooncake's store (`mooncake_process`)."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .mooncake_store import StoreAway, StoreSettings

START_SECONDS = 10.0
"""Time a child has from its start to the first call: it loads 80 MB of libraries and connects."""
_SIGN_OFF_SECONDS = 3.0
_SEND_SECONDS = 2
_PROGRAM = Path(__file__).with_name("mooncake_process.py")


class StoreChild:
    """One life of the process. Its thread starts it and reads its answers until it ends: the
    kernel ties the child to the thread that started it, not to the process.
    """

    def __init__(self, settings: StoreSettings, windows: int, window_bytes: int) -> None:
        self.is_over = False
        self.reason = ""
        self.free: queue.Queue[int] = queue.Queue()
        for number in range(windows):
            self.free.put(number)
        self._size = windows * window_bytes
        # Only pages that were touched take memory. Never unmapped by hand: a view may be in use.
        self._file = os.memfd_create("kvcm-mooncake", os.MFD_CLOEXEC)
        os.ftruncate(self._file, self._size)
        self.view = memoryview(mmap.mmap(self._file, self._size) if self._size else b"")
        self._settings = {**asdict(settings), "threads": windows}
        self._how = f"over {settings.protocol} {settings.rdma_device}".rstrip()
        self._started = threading.Event()
        self._start_by = time.monotonic() + START_SECONDS
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._sending = threading.Lock()
        ours, theirs = socket.socketpair()
        # A child that does not read must not hold up whoever writes.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
        self._link = Connection(ours.detach())
        self._thread = threading.Thread(target=self._live, args=(theirs,), name="mooncake", daemon=True)
        self._thread.start()

    def await_start(self, deadline: float) -> None:
        """Raises StoreAway if the child is not ready by then, or never will be."""
        if not self._started.wait(max(0.0, min(deadline, self._start_by) - time.monotonic())):
            if time.monotonic() >= self._start_by:
                self._end(f"the store's client did not connect within {START_SECONDS:g} s {self._how}")
            raise StoreAway(f"the store's client is still connecting {self._how}")
        if self.is_over:
            raise StoreAway(self.reason)

    def call(self, request: dict[str, Any], deadline: float) -> list[int]:
        """Raises StoreAway when the time is up or the child is gone."""
        box: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        began = time.monotonic()
        with self._lock:
            if self.is_over:
                raise StoreAway(self.reason)
            self._next += 1
            number = self._next
            self._answers[number] = box
        try:
            self._send({"id": number, **request}, deadline)
            answer = box.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise StoreAway(f"no answer of the store within {time.monotonic() - began:.1f} s") from None
        finally:
            self._answers.pop(number, None)
        if answer is None:
            raise StoreAway(self.reason)
        if "error" in answer:
            raise StoreAway(f"the store's client failed: {answer['error']}")
        return list(answer["codes"])

    def _send(self, message: dict[str, Any], deadline: float) -> None:
        text = json.dumps(message).encode()
        if not self._sending.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise StoreAway("the store's client takes no calls")
        try:
            self._link.send_bytes(text)
        except OSError as error:
            raise StoreAway(f"the store's client is gone or takes no calls: {error}") from error
        finally:
            self._sending.release()

    def kill(self) -> None:
        """Ends it whatever it does; its thread sees to the rest."""
        self._end("the store's client was ended because a call hung")

    def close(self) -> None:
        """Lets it sign off, for two seconds at most."""
        with self._lock:
            self.is_over, self.reason = True, self.reason or "the client is closed"
        # The thread reads from this very descriptor, so it is not closed under it.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._link.fileno())) as end:
            end.shutdown(socket.SHUT_WR)
        self._thread.join(_SIGN_OFF_SECONDS)
        self.kill()
        self._thread.join(_SIGN_OFF_SECONDS)

    def _end(self, reason: str) -> None:
        with self._lock:
            if not self.is_over:
                self.is_over, self.reason = True, reason
            process = self._process
        if process is not None:
            process.kill()

    def _live(self, theirs: socket.socket) -> None:
        try:
            self._run(theirs)
            reason = "the store's client ended"
        except (EOFError, OSError, ValueError) as error:
            reason = f"the store's client died{_last_words(self._process)}" if self._process else str(error)
        with self._lock:
            if not self.is_over:
                self.is_over, self.reason = True, reason
            waiting = list(self._answers.values())
        self._started.set()
        for box in waiting:
            box.put(None)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        os.close(self._file)
        with self._sending:
            self._link.close()

    def _run(self, theirs: socket.socket) -> None:
        with theirs:
            command = [sys.executable, "-P", str(_PROGRAM)]
            numbers = (theirs.fileno(), self._file, self._size, os.getpid())
            process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), self._file),
            )
        with self._lock:
            self._process = process
            if self.is_over:
                return
            self._link.send_bytes(json.dumps(self._settings).encode())
        first = json.loads(self._link.recv_bytes())
        if "refusal" in first:
            with self._lock:
                self.is_over, self.reason = True, first["refusal"]
            return
        self._started.set()
        while True:
            answer = json.loads(self._link.recv_bytes())
            box = self._answers.get(answer["id"])
            if box is not None:
                box.put(answer)


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """How the process ended, for the reason; it has closed its end, so this does not wait long."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return ""
    return f" (signal {-code})" if code < 0 else f" (exit code {code})"
