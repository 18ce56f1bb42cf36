"""The bytes and lines of a trace's file, unpacked on the way."""

from __future__ import annotations

import io
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import TraceReadError
from .unpacked_stream import UNPACK_ERRORS, unpacked

MAX_LINE_BYTES = 64 << 20
"""A WEKA session is one line of megabytes; more than this is no line of a trace."""

_BUFFER_BYTES = 1 << 20


class Source:
    """An open trace: `stream` gives the unpacked bytes, `share` says how much of the file was read (0..1)."""

    def __init__(self, file: BinaryIO, stream: io.BufferedReader, size_bytes: int) -> None:
        self.stream = stream
        self._file = file
        self._size = max(1, size_bytes)

    @property
    def share(self) -> float:
        return min(1.0, self._file.tell() / self._size)


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Opens a file, plain, gzip or zstd by its first bytes whatever its name.

    Raises OSError, and TraceReadError unreadable for pipes and devices: they cannot be read twice, or never
    end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise TraceReadError("unreadable", f"{path} is no file", field="source")
    with path.open("rb", buffering=0) as file:
        magic = file.read(4)
        file.seek(0)
        stream = unpacked(file, magic) or file
        yield Source(file, io.BufferedReader(stream, _BUFFER_BYTES), path.stat().st_size)


class Lines:
    """The lines of a stream with their numbers, from 1; blank ones are left out, and so is
    the mark that some editors put at the beginning of a file.

    A line longer than `max_line_bytes` is not kept: it comes as None. A packed file that ends too early or
    is damaged ends the lines; `damage` then says how. Raises TraceReadError too_large after `max_bytes`.
    Who reads `stream` instead counts by `add_bytes`.
    """

    def __init__(
        self,
        stream: io.BufferedReader,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_bytes: int | None = None,
        first_number: int = 1,
    ) -> None:
        self.stream = stream
        self.damage = ""
        self.number = first_number - 1
        self.bytes = 0
        self._max_line = max_line_bytes
        self.max_bytes = max_bytes if max_bytes is not None else 1 << 62

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        readline, limit = self.stream.readline, self._max_line + 1
        while True:
            try:
                line: bytes | None = readline(limit)
            except UNPACK_ERRORS as error:
                self.damage = f"the packed file is damaged or cut off: {error}"
                return
            if not line:
                return
            self.number += 1
            self.add_bytes(len(line))
            if self.number == 1 and line.startswith(BOM_UTF8):
                line = line[len(BOM_UTF8) :]
            if len(line) >= limit and not line.endswith(b"\n"):
                line = None
                self._skip_line()
            if line is None or not line.isspace():
                yield self.number, line

    def add_bytes(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self.max_bytes:
            raise TraceReadError("too_large", f"the unpacked trace is larger than {self.max_bytes:,} bytes")

    def _skip_line(self) -> None:
        while True:
            try:
                part = self.stream.readline(_BUFFER_BYTES)
            except UNPACK_ERRORS:
                return
            self.add_bytes(len(part))
            if not part or part.endswith(b"\n"):
                return
