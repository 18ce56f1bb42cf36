"""Requests as lines of JSON: the optimizer schema (WIRE.md F 7.2) and Mooncake's format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from kvcm_platform.optimizer.trace import Event


class OutputFormat(StrEnum):
    OPTIMIZER_SCHEMA = "optimizer_schema"
    MOONCAKE = "mooncake"


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """As a request of a Trace (see there), with names and keys."""

    at_us: int
    keys: Sequence[int]
    instance: str
    event: Event = Event.TURN
    type: str = ""
    session: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    skip_n: int = 0
    read_n: int = 0


def to_line(request: OutputRequest, output: OutputFormat) -> bytes:
    """One line with its end. Mooncake's has no place for instance, session, `skip_n` and output blocks."""
    return orjson.dumps(_FORMS[output](request), option=orjson.OPT_APPEND_NEWLINE)


def _optimizer_schema(request: OutputRequest) -> dict[str, Any]:
    record: dict[str, Any] = {
        "instance_id": request.instance,
        "timestamp_us": request.at_us,
        "tokens": [],
        "keys": list(request.keys if request.event is Event.WRITE else request.keys[: request.read_n]),
        "input_len": request.input_tokens,
        "output_len": request.output_tokens,
    }
    if request.event is not Event.WRITE:
        record |= {"query_type": "prefix_match", "block_mask": request.skip_n}
    if request.event is Event.TURN:
        record["total_keys"] = list(request.keys)
    if request.session:
        record["session_id"] = request.session
    if request.type:
        record["request_type"] = request.type
    return record


def _mooncake(request: OutputRequest) -> dict[str, Any]:
    at_ms = request.at_us / 1000
    record: dict[str, Any] = {
        "timestamp": int(at_ms) if at_ms.is_integer() else at_ms,
        "input_length": request.input_tokens,
        "output_length": request.output_tokens,
        # Tools that read this format expect ids that are not negative.
        "hash_ids": [key & 0x7FFF_FFFF_FFFF_FFFF for key in request.keys[: request.read_n]],
    }
    if request.type:
        record["type"] = request.type
    return record


_FORMS: dict[OutputFormat, Callable[[OutputRequest], dict[str, Any]]] = {
    OutputFormat.OPTIMIZER_SCHEMA: _optimizer_schema,
    OutputFormat.MOONCAKE: _mooncake,
}
