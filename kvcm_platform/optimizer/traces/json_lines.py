"""JSON lines to records, with the unusable ones told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import orjson

from .source_lines import MAX_LINE_BYTES
from .source_request import BadLines, Lines

Record = TypeVar("Record")


def json_objects(
    lines: Lines, bad_lines: BadLines, parse: Callable[[int, dict[str, Any]], Record]
) -> Iterator[tuple[int, Record]]:
    """Line numbers with what `parse` makes of number and object; its ValueErrors make bad lines."""
    loads = orjson.loads
    for number, line in lines:
        try:
            if line is None:
                raise ValueError(f"longer than {MAX_LINE_BYTES:,} bytes")
            record = loads(line)
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
            parsed = parse(number, record)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            bad_lines.add(number, str(error))
            continue
        yield number, parsed
