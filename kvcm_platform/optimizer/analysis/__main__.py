"""The process of one job: its order comes on stdin, progress and the result go to stdout.

    python -m kvcm_platform.optimizer.analysis

A process of its own: a job that needs more memory than it may have fails alone, keeps nobody else from
Python's lock, and is ended at once by a kill. It ends by itself when stdin closes: then whoever started it
is gone. `order.py` has the messages.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import orjson

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.analysis.order import NICENESS, Order, out_of_memory, packed, result_header

_PROGRESS_SECONDS = 0.2
_OUT_OF_MEMORY_SCORE = "800"
"""The kernel ends this process before any other of the platform."""


def main() -> int:
    stdin = os.fdopen(os.dup(0), "rb", buffering=0)
    stdout = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not end up between the messages.
    os.dup2(2, 1)
    order = Order.from_line(_line(stdin))
    _be_modest(order)
    threading.Thread(target=_end_with, args=(stdin,), daemon=True).start()
    try:
        result = _carry_out(order, _Teller(stdout))
    except DomainError as error:
        _send(stdout, {"failed": {"code": error.code.value, "message": error.message}})
    except MemoryError:
        message = out_of_memory(order.memory_bytes)
        _send(stdout, {"failed": {"code": Code.CAPACITY.value, "message": message}})
    except OSError as error:
        _send(stdout, {"failed": {"code": Code.IO_ERROR.value, "message": str(error)}})
    else:
        content = packed(result)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        _send(stdout, result_header(content, peak))
        stdout.write(content)
        stdout.flush()
    return 0


def _carry_out(order: Order, tell: _Teller) -> dict[str, object]:
    # On use: they load compiled code.
    if order.do == "analyse":
        from kvcm_platform.optimizer.analysis.work import analyse

        return analyse(order.arguments, tell)
    from kvcm_platform.optimizer.analysis.reading import generate_trace, read_trace

    return (read_trace if order.do == "read" else generate_trace)(order.arguments, tell)


class _Teller:
    """Progress, no more often than anybody looks."""

    def __init__(self, stdout: BinaryIO) -> None:
        self._stdout = stdout
        self._told_at = 0.0

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._told_at >= _PROGRESS_SECONDS or share >= 1:
            self._told_at = now
            _send(self._stdout, {"progress": min(1.0, max(0.0, float(share)))})


def _send(stdout: BinaryIO, message: dict[str, object]) -> None:
    stdout.write(orjson.dumps(message) + b"\n")
    stdout.flush()


def _line(stdin: BinaryIO) -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        piece = stdin.read(1 << 16)
        if not piece:
            raise SystemExit(2)
        found += piece
    return found


def _be_modest(order: Order) -> None:
    if not os.access(Path(__file__).parent, os.W_OK):
        # numba keeps compiled code beside the source where it can.
        os.environ.setdefault("NUMBA_CACHE_DIR", order.cache_folder)
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(_OUT_OF_MEMORY_SCORE)
    if order.memory_bytes:
        # Memory of its own, not maps of files: those the kernel takes back when it needs room.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (order.memory_bytes, order.memory_bytes))


def _end_with(stdin: BinaryIO) -> None:
    while stdin.read(1 << 10):
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main())
