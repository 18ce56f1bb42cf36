"""Which format a file has, by its beginning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from .errors import TraceReadError
from .formats import SourceFormat
from .readers.event_log import CAPTURE_MEMBER
from .readers.kv_events import KINDS, is_msgpack
from .source_lines import Lines, open_source
from .unpacked_stream import UNPACK_ERRORS

_LINES = 20


def detect(path: Path | str) -> SourceFormat:
    """The format of the first usable lines. Raises TraceReadError unknown_format, with what was seen."""
    with open_source(Path(path)) as source:
        try:
            beginning = source.stream.peek(4)[:4]
        except UNPACK_ERRORS as error:
            raise _unknown(f"the packed file is damaged or cut off: {error}") from None
        if beginning == b"PAR1":
            return SourceFormat.PARQUET
        if not beginning:
            raise _unknown("it is empty")
        if is_msgpack(beginning[0]):
            return SourceFormat.KV_EVENTS
        return _of_lines(Lines(source.stream))


def _of_lines(lines: Lines) -> SourceFormat:
    seen = ""
    for count, (number, line) in enumerate(lines):
        if count >= _LINES:
            break
        try:
            record = orjson.loads(line or b"")
        except ValueError:
            seen = seen or f"line {number} is not JSON but begins with {(line or b'')[:30]!r}"
            continue
        found = _of_record(record)
        if found is not None:
            return found
        if isinstance(record, dict):
            seen = seen or f"line {number} has the members {', '.join(list(record)[:12])}"
        else:
            seen = seen or f"line {number} is neither a JSON object nor a batch of events"
    raise _unknown(lines.damage or seen or "it has blank lines only")


def _unknown(seen: str) -> TraceReadError:
    return TraceReadError("unknown_format", f"the trace has no known format: {seen}", field="source_format")


def _of_record(record: Any) -> SourceFormat | None:
    if isinstance(record, list):
        is_batch = len(record) >= 2 and isinstance(record[1], list)
        return SourceFormat.KV_EVENTS if is_batch else None
    if not isinstance(record, dict):
        return None
    return next((found for found, fits in _FITS if fits(record)), None)


_SCHEMA_TIMES = ("timestamp_us", "timestamp_ns")
_FITS: tuple[tuple[SourceFormat, Callable[[dict[str, Any]], bool]], ...] = (
    (SourceFormat.CAPTURE, lambda record: CAPTURE_MEMBER in record),
    (SourceFormat.BAILIAN, lambda record: record.keys() >= {"timestamp", "hash_ids", "chat_id"}),
    (SourceFormat.MOONCAKE, lambda record: record.keys() >= {"timestamp", "hash_ids"}),
    (SourceFormat.WEKA, lambda record: isinstance(record.get("requests"), list)),
    (SourceFormat.LMCACHE, lambda record: record.keys() >= {"timestamp", "chunk_hashes"}),
    (SourceFormat.PUBLISHER_LOG, lambda record: record.keys() >= {"type", "trigger_time_us"}),
    (
        SourceFormat.OPTIMIZER_SCHEMA,
        lambda record: "instance_id" in record and not record.keys().isdisjoint(_SCHEMA_TIMES),
    ),
    (
        SourceFormat.KV_EVENTS,
        lambda record: isinstance(record.get("events"), list) or record.get("type") in KINDS,
    ),
)
"""The first that fits."""
