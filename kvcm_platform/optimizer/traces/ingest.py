"""From a trace's file to columns: read once, front to back, in bounded memory.

First the requests are appended to files as they come; then, in the order of time, their blocks get path ids.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvcm_platform.optimizer.curve import Progress
from kvcm_platform.optimizer.trace import (
    MAX_BLOCK_BYTES,
    MAX_BLOCK_TOKENS,
    Trace,
    TraceHeader,
    TraceInstance,
)

from .detection import detect
from .directories import new_directory
from .errors import TraceReadError
from .formats import SourceFormat
from .header import header_write
from .in_order import put_in_order
from .progress import Throttle
from .readers.registry import reader_of
from .request_columns import MAX_PROMPT_TOKENS, RequestColumns
from .source_lines import Lines, Source, open_source
from .source_request import ONE_INSTANCE, BadLines, ReadOptions, SourceRequest
from .store import open_trace

if TYPE_CHECKING:
    from .parquet import ParquetSource

MAX_BAD_LINES = 100
_READING_SHARE = 0.8
"""Of the whole work, roughly; the rest gives path ids."""
_TELL_EVERY = 64


def ingest(
    source: Path | str,
    target: Path | str,
    *,
    source_format: SourceFormat | str | None = None,
    name: str = "",
    one_namespace: bool = False,
    block_tokens: int | None = None,
    block_bytes: int | None = None,
    as_turns: bool | None = None,
    max_bad_lines: int = MAX_BAD_LINES,
    max_requests: int = 1 << 30,
    max_bytes: int | None = None,
    on_progress: Progress | None = None,
) -> Trace:
    """Reads a trace of any known format into the new directory `target` and opens it.

    `source_format` None: told by the file's beginning. `one_namespace` puts all instances of the trace in
    one, so that equal keys are one block (ids that are local to a session stay apart). `block_tokens` and
    `block_bytes` override what the trace says. `as_turns` makes turns of the reads and writes of an event
    log (None: of a capture only). `max_bytes` bounds the unpacked size.

    Raises TraceReadError (see its codes), OSError, and what `on_progress` raises; nothing is left behind.
    """
    source, target = Path(source), Path(target)
    for option, value, most in (
        ("block_tokens", block_tokens, MAX_BLOCK_TOKENS),
        ("block_bytes", block_bytes, MAX_BLOCK_BYTES),
    ):
        if value is not None and not 0 < value <= most:
            raise TraceReadError(
                "bad_option", f"{option} is {value}; 1 to {most:,} are possible", field=option
            )
    chosen = _format(source, source_format)
    bad_lines = BadLines(max_bad_lines)
    options = ReadOptions(bad_lines, block_tokens, block_bytes, as_turns)
    with new_directory(target) as directory:
        reading = _Reading(RequestColumns(directory), options, one_namespace, max_requests)
        reading.read(source, chosen, max_bytes, Throttle(on_progress, 0, _READING_SHARE))
        start_us = put_in_order(reading.columns, directory, Throttle(on_progress, _READING_SHARE, 1))
        header = TraceHeader(
            name=name or source.name,
            format=chosen.value,
            instances=reading.instances(),
            types=tuple(reading.columns.types),
            start_us=start_us,
            has_partial_blocks=reading.has_partial_blocks,
            bad_lines=tuple(bad_lines.first),
            bad_line_count=bad_lines.count,
            notes=reading.notes(),
        )
        header_write(header, directory)
    if on_progress is not None:
        on_progress(1.0)
    return open_trace(target)


def _format(source: Path, source_format: SourceFormat | str | None) -> SourceFormat:
    if source_format is None:
        return detect(source)
    try:
        return SourceFormat(source_format)
    except ValueError:
        known = ", ".join(SourceFormat)
        raise TraceReadError(
            "unknown_format", f"{source_format} is not a format of traces ({known})", field="source_format"
        ) from None


class _Reading:
    """What one pass over the source collects."""

    def __init__(
        self, columns: RequestColumns, options: ReadOptions, one_namespace: bool, max_requests: int
    ) -> None:
        self.columns = columns
        self.has_partial_blocks = False
        self._told: tuple[str, ...] = ()
        self._options = options
        self._one_namespace = one_namespace
        self._max_requests = max_requests

    def read(self, path: Path, source_format: SourceFormat, max_bytes: int | None, tell: Throttle) -> None:
        """Fills the columns. Raises TraceReadError."""
        if source_format is SourceFormat.PARQUET:
            # On use: the library behind it loads for as long as all the rest, and each job is a process.
            from .parquet import ParquetSource

            self._read_rows(ParquetSource(path), max_bytes, tell)
        else:
            with open_source(path) as source:
                self._read_lines(source, source_format, max_bytes, tell)
        self.columns.close()
        if not self.columns.requests:
            first = self._options.bad_lines.first
            told = f"; line {first[0].number}: {first[0].reason}" if first else ""
            raise TraceReadError("empty_trace", f"the trace holds no requests{told}")

    def _read_rows(self, source: ParquetSource, max_bytes: int | None, tell: Throttle) -> None:
        source.read(
            self.columns,
            self._options,
            one_namespace=self._one_namespace,
            max_requests=self._max_requests,
            max_bytes=max_bytes,
            tell=tell,
        )
        if source.header is not None:
            self.has_partial_blocks = source.header.has_partial_blocks
            self._told = source.header.notes

    def _read_lines(
        self, source: Source, source_format: SourceFormat, max_bytes: int | None, tell: Throttle
    ) -> None:
        lines = Lines(source.stream, max_bytes=max_bytes)
        bad_lines = self._options.bad_lines
        for count, request in enumerate(reader_of(source_format)(lines, self._options)):
            try:
                self._add(request)
            except (ValueError, OverflowError) as error:
                bad_lines.add(request.number, str(error))
            if count % _TELL_EVERY == 0:
                tell(source.share)
        if lines.damage:
            bad_lines.add(lines.number + 1, lines.damage)

    def _add(self, request: SourceRequest) -> None:
        columns = self.columns
        told = self._options.instances.get(request.instance)
        if told is not None and len(request.keys) * told.block_tokens > MAX_PROMPT_TOKENS:
            raise ValueError(f"more than {MAX_PROMPT_TOKENS:,} tokens in its blocks")
        if columns.requests >= self._max_requests:
            raise TraceReadError("too_many_requests", f"more than {self._max_requests:,} requests")
        columns.append(request, ONE_INSTANCE if self._one_namespace else request.instance)
        if not self.has_partial_blocks:
            read_n = len(request.keys) if request.read_n is None else request.read_n
            self.has_partial_blocks = (
                told is not None and 0 < request.input_tokens < read_n * told.block_tokens
            )

    def notes(self) -> tuple[str, ...]:
        made = (f"{count:,} x {note}" for note, count in sorted(self._options.notes.items()))
        return (*self._told, *made)

    def instances(self) -> tuple[TraceInstance, ...]:
        """Those that have requests, in the order of their numbers."""
        told = self._options.instances
        if self._one_namespace:
            return (replace(next(iter(told.values())), instance_id=ONE_INSTANCE),)
        return tuple(told[name] for name in self.columns.instances)
