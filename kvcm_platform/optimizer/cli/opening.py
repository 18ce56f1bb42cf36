"""From `--trace` to a trace: an ingested directory as it is, a source file by way of a cache."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from pathlib import Path

from kvcm_platform.core.errors import invalid

from ..trace import Trace
from ..traces import TraceReadError, detect, ingest, open_trace, part_of
from ..traces.source_lines import open_source
from .console import bar, note

_LAYOUT = 1
"""Raised when columns change: traces read by an older version are read again."""
_PIECE = 1 << 20


def opened(options: argparse.Namespace) -> Trace:
    """The trace of the command's options, and the part of it that they choose."""
    trace = _whole(options)
    try:
        return part_of(
            trace,
            instances=options.instance,
            types=options.type,
            begin_seconds=options.begin,
            end_seconds=options.end,
        )
    except TraceReadError as error:
        raise invalid(error.field or "trace", str(error)) from error


def _whole(options: argparse.Namespace) -> Trace:
    source: Path = options.trace
    if source.is_dir():
        _refuse_reading_options(options)
        return open_trace(source)
    with open_source(source):
        pass
    target = _cached(source, options)
    if target.is_dir():
        try:
            return open_trace(target)
        except TraceReadError:
            shutil.rmtree(target)
    note(options, f"reading {source} into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        return read(options, source, target)
    except TraceReadError as error:
        if error.code != "target_exists":
            raise
        # Another command read the same file meanwhile.
        return open_trace(target)


def read(options: argparse.Namespace, source: Path, target: Path) -> Trace:
    """Reads a source file into the new directory `target`. Raises as `ingest`."""
    with bar(options, "reading") as told:
        trace = ingest(
            source,
            target,
            source_format=options.format,
            one_namespace=options.one_namespace,
            block_tokens=options.block_tokens,
            block_bytes=options.block_bytes,
            as_turns=options.as_turns,
            max_bad_lines=options.max_bad_lines,
            on_progress=told,
        )
    _tell_bad_lines(options, trace)
    return trace


def _refuse_reading_options(options: argparse.Namespace) -> None:
    """An ingested trace is as it was read: what would have no effect is not taken in silence."""
    for name in ("format", "one_namespace", "as_turns", "block_tokens", "block_bytes"):
        if getattr(options, name):
            shown = name.replace("_", "-")
            raise invalid(shown, f"{options.trace} is read already; give --{shown} when reading the source")


def _tell_bad_lines(options: argparse.Namespace, trace: Trace) -> None:
    header = trace.header
    if header.bad_line_count:
        first = header.bad_lines[0]
        note(
            options,
            f"skipped {header.bad_line_count} bad lines, the first: line {first.number}: {first.reason}",
        )


def _cached(source: Path, options: argparse.Namespace) -> Path:
    """Where the columns of this file, read with these options, are kept: by content, not by name."""
    names = ("one_namespace", "as_turns", "block_tokens", "block_bytes", "max_bad_lines")
    source_format = str(options.format or detect(source))
    asked = [_LAYOUT, source_format, *(getattr(options, name) for name in names)]
    digest = hashlib.sha256(repr(asked).encode())
    with source.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return _cache_folder(options) / digest.hexdigest()[:32]


def _cache_folder(options: argparse.Namespace) -> Path:
    if options.cache:
        return Path(options.cache)
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "kvcm-platform" / "traces"
    except RuntimeError as error:
        raise invalid("cache", f"name a directory, there is no home directory ({error})") from error
