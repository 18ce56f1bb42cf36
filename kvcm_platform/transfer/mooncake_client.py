"""A client of Mooncake's store whose calls end in time: it lives in a child process that can be killed.

A call that takes too long, or under which the child dies, costs that child; the next call starts
another. After repeated failures calls fail at once for a while instead of waiting each for itself.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

START_SECONDS = 10.0
"""Time a child has from its start to the first call: it loads 80 MB of libraries and connects."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
NO_SPACE, MISSING, HAS_LEASE, BUSY = -200, -704, -706, frozenset({-708, -714})
_PROGRAM = Path(__file__).with_name("mooncake_process.py")
_SAID = {
    -101: "the segment is gone",
    NO_SPACE: "no space is left in its segments",
    -600: "the store refuses the arguments",
    -703: "it is not written to its end",
    MISSING: "it is not there",
    -705: "it is there already",
    HAS_LEASE: "a reader's lease on it has not run out",
    -707: "the lease ran out while it was read",
    -708: "it is being copied",
    -714: "it is in use",
    -800: "the bytes could not be moved",
    -900: "the master does not answer",
    -901: "the master does not answer",
}


def said(code: int) -> str:
    """What an error code of the store means."""
    return f"{_SAID.get(code, 'the store failed')} (code {code})"


class StoreAway(OSError):
    """No answer of the store: it hangs, its client died or could not be started."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What a client of a store is set up with; the members of the storage's spec."""

    local_hostname: str
    metadata_connstring: str
    protocol: str
    rdma_device: str
    master_service_entry: str

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> StoreSettings:
        return cls(
            str(spec.get("local_hostname") or "localhost"),
            str(spec.get("metadata_connstring") or ""),
            str(spec.get("protocol") or "tcp"),
            str(spec.get("rdma_device") or ""),
            str(spec.get("master_service_entry") or ""),
        )


@dataclass(slots=True)
class Window:
    """A part of the buffer that one call has to itself."""

    child: _Child
    offset: int
    view: memoryview


class StoreClient:
    """Calls on one store. Safe to share among threads. `window_bytes` = 0: no bytes are moved."""

    def __init__(self, settings: StoreSettings, *, windows: int = 4, window_bytes: int = 0) -> None:
        self._settings = settings
        self._windows = windows
        self.window_bytes = window_bytes
        self._child: _Child | None = None
        self._failures = 0
        self._paused_until = 0.0
        self._reason = ""
        self._is_closed = False
        self._lock = threading.Lock()

    def call(self, verb: str, keys: Sequence[str], seconds: float, **more: Any) -> list[int]:
        """The store's code for each key. Raises StoreAway, after `seconds` at the latest."""
        deadline = time.monotonic() + seconds
        return self._call(self._ready(deadline), verb, keys, deadline, more)

    @contextlib.contextmanager
    def window(self, seconds: float) -> Iterator[Window]:
        """A part of the buffer for `move`. Raises StoreAway if none comes free in `seconds`."""
        deadline = time.monotonic() + seconds
        child = self._ready(deadline)
        try:
            number = child.free.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise StoreAway("all transfers to the store are taken") from None
        start = number * self.window_bytes
        try:
            yield Window(child, start, child.view[start : start + self.window_bytes])
        finally:
            child.free.put(number)

    def move(
        self,
        window: Window,
        verb: str,
        keys: Sequence[str],
        sizes: Sequence[int],
        seconds: float,
        **more: Any,
    ) -> list[int]:
        """Puts or gets objects that lie one after the other in the window. Raises StoreAway."""
        offsets, at = [], window.offset
        for size in sizes:
            offsets.append(at)
            at += size
        more = {**more, "offsets": offsets, "sizes": list(sizes)}
        return self._call(window.child, verb, keys, time.monotonic() + seconds, more)

    def close(self) -> None:
        """Ends the child; calls that are under way fail."""
        with self._lock:
            self._is_closed = True
            child, self._child = self._child, None
        if child is not None:
            child.close()

    def _call(
        self, child: _Child, verb: str, keys: Sequence[str], deadline: float, more: Mapping[str, Any]
    ) -> list[int]:
        try:
            codes = child.call({"verb": verb, "keys": list(keys), **more}, deadline)
        except StoreAway as error:
            self._retire(child, str(error))
            raise
        with self._lock:
            self._failures = 0
        return codes

    def _ready(self, deadline: float) -> _Child:
        with self._lock:
            if self._is_closed:
                raise StoreAway("the client is closed")
            child = self._child
            if child is not None and child.is_over:
                self._note_failure(child, child.reason)
                child = None
            if child is None:
                if time.monotonic() < self._paused_until:
                    raise StoreAway(f"{self._reason}; the next try is soon")
                child = self._child = _Child(self._settings, self._windows, self.window_bytes)
        try:
            child.await_start(deadline)
        except StoreAway as error:
            # A start that merely outlasts this caller's time goes on for the next one.
            if child.is_over:
                self._retire(child, str(error))
            raise
        return child

    def _retire(self, child: _Child, reason: str) -> None:
        with self._lock:
            self._note_failure(child, reason)
        child.kill()

    def _note_failure(self, child: _Child, reason: str) -> None:
        """Of the calls that fail with one child the first one counts."""
        if self._child is not child:
            return
        self._child = None
        self._failures += 1
        self._reason = reason
        if self._failures > 1:
            pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 2, 10))
            self._paused_until = time.monotonic() + pause


class _Child:
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
        self._started = threading.Event()
        self._start_by = time.monotonic() + START_SECONDS
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        ours, theirs = socket.socketpair()
        self._link = Connection(ours.detach())
        self._thread = threading.Thread(target=self._live, args=(theirs,), name="mooncake", daemon=True)
        self._thread.start()

    def await_start(self, deadline: float) -> None:
        """Raises StoreAway if the child is not ready by then, or never will be."""
        if not self._started.wait(max(0.0, min(deadline, self._start_by) - time.monotonic())):
            if time.monotonic() >= self._start_by:
                self._end(f"the store's client did not start within {START_SECONDS:g} s")
            raise StoreAway("the store's client is still starting")
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
                self._link.send_bytes(json.dumps({"id": number, **request}).encode())
            except OSError as error:
                raise StoreAway(f"the store's client is gone: {error}") from error
        try:
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


_SIGN_OFF_SECONDS = 3.0


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """How the process ended, for the reason; it has closed its end, so this does not wait long."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return ""
    return f" (signal {-code})" if code < 0 else f" (exit code {code})"
