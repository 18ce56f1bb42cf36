"""JSON lines to records, with the unusable ones told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import orjson

from .source_lines import MAX_LINE_BYTES, Lines
from .source_request import BadLines

Record = TypeVar("Record")


def json_objects(
    lines: Lines, bad_lines: BadLines, parse: Callable[[int, dict[str, Any]], Record]
) -> Iterator[tuple[int, Record]]:
    """Line numbers with what `parse` makes of number and object; its ValueErrors make bad lines."""

    def parse_object(number: int, value: Any) -> Record:
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return parse(number, value)

    return json_values(lines, bad_lines, parse_object)


def json_values(
    lines: Lines, bad_lines: BadLines, parse: Callable[[int, Any], Record]
) -> Iterator[tuple[int, Record]]:
    """As `json_objects`, of any JSON value."""
    loads = orjson.loads
    for number, line in lines:
        try:
            if line is None:
                raise ValueError(f"longer than {MAX_LINE_BYTES:,} bytes")
            parsed = parse(number, loads(line))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            bad_lines.add(number, str(error))
            continue
        yield number, parsed
