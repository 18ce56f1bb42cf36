"""Which format a file has, by its beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from .errors import TraceReadError
from .formats import SourceFormat
from .source_lines import Lines, open_source

_LINES = 20


def detect(path: Path | str) -> SourceFormat:
    """The format of the first usable lines. Raises TraceReadError unknown_format, with what was seen."""
    seen = "nothing"
    with open_source(Path(path)) as source:
        for count, (number, line) in enumerate(Lines(source.stream)):
            if count >= _LINES:
                break
            try:
                record = orjson.loads(line or b"")
            except ValueError:
                seen = f"line {number} is not JSON"
                continue
            if not isinstance(record, dict):
                seen = f"line {number} is not a JSON object"
                continue
            found = _of_record(record)
            if found is not None:
                return found
            seen = f"line {number} has the members {', '.join(list(record)[:12])}"
    raise TraceReadError("unknown_format", f"the trace has no known format: {seen}", field="source_format")


def _of_record(record: dict[str, Any]) -> SourceFormat | None:
    members = record.keys()
    if members >= {"timestamp", "hash_ids", "input_length"}:
        return SourceFormat.BAILIAN if "chat_id" in members else SourceFormat.MOONCAKE
    if isinstance(record.get("requests"), list) and "block_size" in members:
        return SourceFormat.WEKA
    return None
