"""What children print: kept in size-bounded files, and shown on the terminal where it matters."""

from __future__ import annotations

import re
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_NOTABLE = re.compile(
    r"""\b(WARNING|ERROR|CRITICAL|FATAL)\b          # logging, Celery, uvicorn
      | "level":\s*"(warning|error|critical)"       # JSON lines
      | \[(warning|error|critical)\s*\]             # structlog on a terminal
      | ^Traceback\ \(most\ recent\ call\ last\)
      | ^\d+:[MCSX]\ .{20,32}\ \#\ .*([Ee]rror|MISCONF|OOM)   # Valkey
    """,
    re.VERBOSE,
)
_HARMLESS = re.compile(r"Memory overcommit must be enabled|FATAL:  the database system is starting up")
"""Valkey's word at each start on most machines, and PostgreSQL's to who asks whether it is up yet."""


class LogFile:
    """Appends lines to a file that is turned over at `max_bytes`; `keep` older ones stay."""

    def __init__(self, path: Path, *, max_bytes: int = 10 << 20, keep: int = 3) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._file = path.open("ab")
        self.last_lines: deque[str] = deque(maxlen=20)

    def write(self, line: str) -> None:
        """Append one line (without its line end)."""
        self.last_lines.append(line)
        data = line.encode(errors="replace") + b"\n"
        if self._file.tell() + len(data) > self._max_bytes and self._file.tell() > 0:
            self._turn_over()
        self._file.write(data)
        self._file.flush()

    def _turn_over(self) -> None:
        self._file.close()
        for number in range(self._keep, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            with suppress(FileNotFoundError):
                newer.replace(older)
        self._file = self._path.open("ab")

    def close(self) -> None:
        self._file.close()


class Terminal:
    """The operator's terminal: the supervisor's own lines, and children's warnings with their name."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def say(self, text: str = "") -> None:
        # The reader may be gone (a closed pipe or window); the platform goes on without it.
        with suppress(OSError, ValueError):
            self._stream.write(text + "\n")
            self._stream.flush()


class ChildOutput:
    """Takes one child's lines; remembers whether the last one was notable to keep tracebacks whole."""

    def __init__(self, name: str, log: LogFile, terminal: Terminal) -> None:
        self._prefix = f"{name} | "
        self._log = log
        self._terminal = terminal
        self._in_notable = False

    def line(self, text: str) -> None:
        self._log.write(text)
        continued = self._in_notable and text.startswith((" ", "\t"))
        self._in_notable = continued or bool(_NOTABLE.search(text) and not _HARMLESS.search(text))
        if self._in_notable:
            self._terminal.say(self._prefix + text)

    @property
    def last_lines(self) -> list[str]:
        return list(self._log.last_lines)

    def close(self) -> None:
        self._log.close()
