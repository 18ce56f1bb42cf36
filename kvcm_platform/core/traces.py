"""Streaming readers of public request traces: what the optimizer and the replay are fed with.

`record_parser` has the rules of each format, one record at a time; `read_trace` makes prompts with block
keys of them for the replay, the optimizer's ingest makes columns.

Every reader yields the requests of a trace in order of time, each with the keys of its prompt's
blocks, first block first. A key names a block together with everything before it, so equal keys
mean equal prefixes, as with the keys that engines send:

- **mooncake**: one JSON object a line; `timestamp` in milliseconds; `hash_ids` (512 tokens) are
  chained already and are the keys.
- **bailian** (Qwen): `timestamp` in seconds; `hash_ids` (16 tokens) are not chained, so they are
  hashed again with the running prefix (the protocol's chained hash, one id a block).
- **weka**: one agent session a line, its `requests` at `t` seconds from its start, `hash_ids`
  (64 tokens) chained within the session. An entry with `requests` of its own is a sub-agent,
  whose times count from its own start. Sessions are laid over each other, all starting at 0,
  and keep their ids apart unless `hash_id_scope` says "global".

The partial last block of a prompt counts as a block where the trace lists it.
"""

from __future__ import annotations

import gzip
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson

from .block_keys import chained_block_keys

MAX_BAD_LINES = 100
_SESSION_BITS = 32


class TraceFormat(StrEnum):
    MOONCAKE = "mooncake"
    BAILIAN = "bailian"
    WEKA = "weka"


BLOCK_TOKENS: Mapping[TraceFormat, int] = {
    TraceFormat.MOONCAKE: 512,
    TraceFormat.BAILIAN: 16,
    TraceFormat.WEKA: 64,
}
"""Tokens per block of each format."""

IS_CHAINED: Mapping[TraceFormat, bool] = {
    TraceFormat.MOONCAKE: True,
    TraceFormat.BAILIAN: False,
    TraceFormat.WEKA: True,
}
"""Whether an id names its block with everything before it."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One prompt. `at_seconds` counts from the start of the trace; `session` may be empty."""

    at_seconds: float
    block_keys: list[int]
    input_tokens: int
    output_tokens: int
    session: str = ""
    type: str = ""


@dataclass(slots=True)
class TraceRecord:
    """One request as its trace has it.

    `ids` are the trace's own, one a block ("q", or "I" for WEKA), to which `base` is to be added; whether
    they are chained is the format's (IS_CHAINED). `model` is empty where the trace does not name it.
    """

    at_seconds: float
    ids: array[int]
    input_tokens: int
    output_tokens: int
    session: str = ""
    type: str = ""
    model: str = ""
    base: int = 0


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line or record that was skipped. `number` counts from 1."""

    number: int
    reason: str


class TraceError(Exception):
    """The trace cannot be read: too many unusable lines."""


OnBadLine = Callable[[BadLine], None]


def read_trace(
    lines: Iterable[bytes],
    trace_format: TraceFormat,
    *,
    on_bad_line: OnBadLine | None = None,
    max_bad_lines: int = MAX_BAD_LINES,
) -> Iterator[TraceRequest]:
    """The requests of a trace, by time.

    Mooncake and Bailian lines are streamed; WEKA sessions overlap, so all are held (4 bytes a
    block) before the first request comes. Unusable lines are skipped and told to `on_bad_line`;
    the one after `max_bad_lines` raises TraceError.
    """
    records = _records(lines, record_parser(trace_format), on_bad_line, max_bad_lines)
    if trace_format is TraceFormat.WEKA:
        records = iter(sorted(records, key=attrgetter("at_seconds")))
    is_chained = IS_CHAINED[trace_format]
    for record in records:
        ids = record.ids.tolist()
        if not is_chained:
            ids = chained_block_keys(ids, 1)
        elif record.base:
            ids = [record.base + number for number in ids]
        yield TraceRequest(
            record.at_seconds, ids, record.input_tokens, record.output_tokens, record.session, record.type
        )


def open_trace(
    path: Path | str,
    trace_format: TraceFormat,
    *,
    on_bad_line: OnBadLine | None = None,
    max_bad_lines: int = MAX_BAD_LINES,
) -> Iterator[TraceRequest]:
    """`read_trace` over a file, unpacked on the way if its name ends in .gz. Raises OSError too."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rb") as lines:
        yield from read_trace(lines, trace_format, on_bad_line=on_bad_line, max_bad_lines=max_bad_lines)


Parser = Callable[[int, dict[str, Any]], list[TraceRecord]]
"""The requests of a line, by its number (from 1) and JSON object. Raises ValueError for an unusable one."""


def record_parser(trace_format: TraceFormat) -> Parser:
    """A parser for one trace: it may remember what earlier lines said (Bailian's chats)."""
    return _PARSERS[trace_format]()


def _records(
    lines: Iterable[bytes], parse: Parser, on_bad_line: OnBadLine | None, max_bad_lines: int
) -> Iterator[TraceRecord]:
    bad = 0
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        try:
            record = orjson.loads(line)
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
            requests = parse(number, record)
        except (ValueError, TypeError, OverflowError) as error:
            bad += 1
            if bad > max_bad_lines:
                raise TraceError(
                    f"line {number}: {error} (more than {max_bad_lines} unusable lines)"
                ) from error
            if on_bad_line is not None:
                on_bad_line(BadLine(number, str(error)))
            continue
        yield from requests


def _mooncake() -> Parser:
    def parse(_number: int, record: dict[str, Any]) -> list[TraceRecord]:
        return [
            TraceRecord(
                _number_of(record, "timestamp") / 1000,
                _ids(record, "q"),
                _count(record, "input_length"),
                _count(record, "output_length"),
                type=_label(record, "type"),
            )
        ]

    return parse


def _bailian() -> Parser:
    first_chat: dict[Any, Any] = {}

    def parse(_number: int, record: dict[str, Any]) -> list[TraceRecord]:
        chat = record.get("chat_id", "")
        first = first_chat.setdefault(chat, first_chat.get(record.get("parent_chat_id"), chat))
        return [
            TraceRecord(
                _number_of(record, "timestamp"),
                _ids(record, "q"),
                _count(record, "input_length"),
                _count(record, "output_length"),
                session=str(first),
                type=_label(record, "type"),
            )
        ]

    return parse


def _weka() -> Parser:
    def parse(number: int, record: dict[str, Any]) -> list[TraceRecord]:
        session = str(record.get("id", number))
        is_local = record.get("hash_id_scope", "local") != "global"
        base = (number - 1) << _SESSION_BITS if is_local else 0
        return list(_session_requests(record, 0.0, base, session))

    return parse


def _session_requests(entry: dict[str, Any], start: float, base: int, session: str) -> Iterator[TraceRecord]:
    requests = entry.get("requests")
    if not isinstance(requests, list):
        raise ValueError("requests is not a list")
    for request in requests:
        if not isinstance(request, dict):
            raise ValueError("a request is not a JSON object")
        at_seconds = start + _number_of(request, "t")
        if "requests" in request:
            yield from _session_requests(request, at_seconds, base, session)
        else:
            yield TraceRecord(
                at_seconds,
                _ids(request, "I"),
                _count(request, "in"),
                _count(request, "out"),
                session,
                _label(request, "type"),
                _label(request, "model"),
                base,
            )


_PARSERS: Mapping[TraceFormat, Callable[[], Parser]] = {
    TraceFormat.MOONCAKE: _mooncake,
    TraceFormat.BAILIAN: _bailian,
    TraceFormat.WEKA: _weka,
}


def _ids(record: dict[str, Any], code: str) -> array[int]:
    """`hash_ids` as an array of that type code, which checks every element's type and range."""
    ids = record.get("hash_ids")
    if not isinstance(ids, list):
        raise ValueError("hash_ids is not a list")
    try:
        return array(code, ids)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"hash_ids: {error}") from error


def _number_of(record: dict[str, Any], name: str) -> float:
    value = record.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} is not a number")
    return float(value)


def _count(record: dict[str, Any], name: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is not a whole number")
    return value


def _label(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value
