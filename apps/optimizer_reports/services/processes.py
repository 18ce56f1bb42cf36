"""The process of one job: started with an order, listened to, ended."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import orjson

import kvcm_platform
from kvcm_platform.optimizer.analysis.order import MOST_RESULT_BYTES, Order, out_of_memory

_ROOT = Path(kvcm_platform.__path__[0]).parent
_MOST_STDERR = 1 << 16
_MOST_LINE = 1 << 16
_NO_MEMORY = re.compile("memory allocation of|bad_alloc|out of memory|cannot allocate memory", re.IGNORECASE)
"""How libraries that are not Python say it before they abort."""


class JobProcess:
    """Runs `python -m kvcm_platform.optimizer.analysis`. It dies with this process: its stdin closes.

    `progress` is the share done. After `wait` tells that it is over, `result` is what it found, or `failure`
    says why there is nothing, in a sentence.
    """

    def __init__(self, order: Order) -> None:
        self.progress = 0.0
        self.result: bytes | None = None
        self.peak_bytes = 0
        self.failure = ""
        self._is_killed = False
        self._memory_bytes = order.memory_bytes
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "kvcm_platform.optimizer.analysis"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=_ROOT,
        )
        self._last_words = bytearray()
        self._listeners = [
            threading.Thread(target=self._listen, args=(order,), daemon=True),
            threading.Thread(target=self._hear_stderr, daemon=True),
        ]
        for listener in self._listeners:
            listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> bool:
        """Whether it is over, all that it said included."""
        self._listeners[0].join(seconds)
        if self._listeners[0].is_alive():
            return False
        self._finish()
        return True

    def kill(self) -> None:
        """End it at once, and wait for that."""
        self._is_killed = True
        self._process.kill()
        self._listeners[0].join()
        self._finish()

    def _finish(self) -> None:
        self._close(self._process.stdin)
        status = self._process.wait()
        self._listeners[1].join()
        self._close(self._process.stdout)
        self._close(self._process.stderr)
        if self.result is None and not self.failure:
            self.failure = self._how_it_died(status)

    @staticmethod
    def _close(stream: IO[bytes] | None) -> None:
        try:
            if stream is not None:
                stream.close()
        except OSError:
            pass

    def _how_it_died(self, status: int) -> str:
        if self._is_killed:
            return "it was ended"
        if status == -9:
            return "the system ended its process: memory is short"
        words = bytes(self._last_words).decode(errors="replace")
        if _NO_MEMORY.search(words):
            return out_of_memory(self._memory_bytes)
        lines = words.strip().splitlines()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"its process ended with {how}" + (f": {lines[-1][:500]}" if lines else "")

    def _hear_stderr(self) -> None:
        stream = self._process.stderr
        while stream is not None and (piece := stream.read1(1 << 14)):  # type: ignore[attr-defined]
            self._last_words += piece
            del self._last_words[:-_MOST_STDERR]

    def _listen(self, order: Order) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101 - pipes were asked for
        try:
            stdin.write(order.line())
            stdin.flush()
            while line := stdout.readline(_MOST_LINE):
                self._take(orjson.loads(line), stdout)
        except (OSError, ValueError) as error:
            self.failure = self.failure or f"its messages cannot be read: {error}"
            self._process.kill()

    def _take(self, message: dict[str, Any], stdout: IO[bytes]) -> None:
        if "progress" in message:
            self.progress = message["progress"]
        elif "failed" in message:
            self.failure = message["failed"]["message"]
        elif "result_bytes" in message:
            count = message["result_bytes"]
            if count > MOST_RESULT_BYTES:
                raise ValueError(f"a result of {count} bytes")
            packed = stdout.read(count)
            if len(packed) < count:
                raise ValueError("the result is cut off")
            self.peak_bytes = message["peak_bytes"]
            self.result = packed
