"""header.json of an ingested trace."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from kvcm_platform.optimizer.trace import BadLine, TraceHeader, TraceInstance, instance_checked

from .request_columns import MOST_US

VERSION = 1
FILE = "header.json"


def header_to_json(header: TraceHeader) -> dict[str, Any]:
    """JSON-ready, whole; `header_from_json` is its inverse."""
    return {"kvcm_trace": VERSION, **dataclasses.asdict(header)}


def header_from_json(data: dict[str, Any]) -> TraceHeader:
    """Raises KeyError, TypeError or ValueError for what `header_to_json` did not write."""
    if data["kvcm_trace"] != VERSION:
        raise ValueError(f"a trace of version {data['kvcm_trace']}, not {VERSION}")
    return TraceHeader(
        name=str(data["name"]),
        format=str(data["format"]),
        instances=tuple(_instance(instance) for instance in data["instances"]),
        types=tuple(str(name) for name in data["types"]),
        start_us=_start_us(data["start_us"]),
        has_partial_blocks=bool(data["has_partial_blocks"]),
        bad_lines=tuple(BadLine(**bad) for bad in data["bad_lines"]),
        bad_line_count=int(data["bad_line_count"]),
        notes=tuple(str(note) for note in data.get("notes", ())),
    )


def _start_us(value: Any) -> int:
    start_us = int(value)
    if not 0 <= start_us <= MOST_US:
        raise ValueError(f"start_us is {start_us}")
    return start_us


def _instance(data: dict[str, Any]) -> TraceInstance:
    return instance_checked(
        TraceInstance(
            instance_id=str(data["instance_id"]),
            block_tokens=int(data["block_tokens"]),
            block_bytes=int(data.get("block_bytes", 0)),
            group=str(data.get("group", "")),
        )
    )


def bad_lines_to_json(bad_lines: tuple[BadLine, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(bad) for bad in bad_lines]


def header_write(header: TraceHeader, directory: Path) -> None:
    (directory / FILE).write_text(json.dumps(header_to_json(header)), encoding="utf-8")
