"""Jobs that make the columns of a trace: read from its source, or generated."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.traces import TraceError
from kvcm_platform.optimizer.curve import Progress, progress_part
from kvcm_platform.optimizer.generate import Shape, generate_into
from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import ingest, summary
from kvcm_platform.optimizer.traces.parquet import save_parquet

_COLUMNS_SHARE = 0.9
_LEAST_UNPACKED_BYTES = 1 << 30
_NO_LIMIT = 1 << 62
_MOST_PACKED = 256
"""No trace is packed to less of its size; bombs are, to a thousandth and less."""
_TYPES_SHOWN = 200
_INSTANCES_SHOWN = 2000
_BAD_LINES_SHOWN = 100


def read_trace(arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """`arguments`: source, columns, parquet (paths), name, format ("" = detected), options;
    room_bytes bounds the unpacked source, absent = no limit.

    Raises DomainError INVALID_ARGUMENT for a source that cannot be read, with the reason.
    """
    source, columns = Path(arguments["source"]), Path(arguments["columns"])
    options = arguments["options"]
    _begin_anew(arguments)
    try:
        trace = ingest(
            source,
            columns,
            source_format=arguments["format"] or None,
            name=arguments["name"],
            one_namespace=options.get("one_namespace", False),
            block_tokens=options.get("block_tokens") or None,
            block_bytes=options.get("block_bytes") or None,
            as_turns=options.get("as_turns"),
            max_bad_lines=options.get("max_bad_lines", 100),
            max_bytes=min(
                max(_LEAST_UNPACKED_BYTES, _MOST_PACKED * source.stat().st_size),
                arguments.get("room_bytes", _NO_LIMIT),
            ),
            on_progress=progress_part(tell, 0, _COLUMNS_SHARE),
        )
    except TraceError as error:
        raise DomainError(Code.INVALID_ARGUMENT, str(error), field="file") from error
    return {
        **_kept(trace, arguments, tell),
        "sha256": _digest(source),
        "source_bytes": source.stat().st_size,
    }


def generate_trace(arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """As read_trace, of a trace that `options` (requests, seed, instances, block_bytes) describe."""
    _begin_anew(arguments)
    columns = Path(arguments["columns"])
    options = arguments["options"]
    trace = generate_into(
        columns,
        options["requests"],
        seed=options["seed"],
        shape=_shape(options),
        on_progress=progress_part(tell, 0, _COLUMNS_SHARE),
    )
    return _kept(trace, arguments, tell)


def _shape(options: Mapping[str, Any]) -> Shape:
    shape = Shape(instances=options["instances"])
    return replace(shape, block_bytes=options["block_bytes"]) if options["block_bytes"] else shape


def _begin_anew(arguments: Mapping[str, Any]) -> None:
    """What an earlier reading left must not be taken for the new one."""
    shutil.rmtree(arguments["columns"], ignore_errors=True)
    Path(arguments["parquet"]).unlink(missing_ok=True)


def _kept(trace: Trace, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    save_parquet(
        trace,
        arguments["parquet"],
        on_progress=progress_part(tell, _COLUMNS_SHARE, 1),
    )
    return trace_facts(trace)


def trace_facts(trace: Trace) -> dict[str, Any]:
    """What is said of a trace without opening it; `plan.facts_from_json` reads a part of it."""
    told = summary(trace)
    same = (
        *("format", "requests", "blocks", "distinct_blocks", "input_tokens", "output_tokens", "span_us"),
        *("start_us", "bad_line_count"),
    )
    details = ("events", "sessions", "longest", "distinct_bytes", "has_partial_blocks")
    return {
        **{name: getattr(told, name) for name in same},
        "bad_lines": [
            {"number": line.number, "reason": line.reason[:500]} for line in told.bad_lines[:_BAD_LINES_SHOWN]
        ],
        "instances": [
            {
                **asdict(instance),
                "requests": part.requests,
                "blocks": part.blocks,
                "input_tokens": part.input_tokens,
            }
            for instance, part in zip(trace.header.instances, told.instances, strict=True)
        ][:_INSTANCES_SHOWN],
        "types": [asdict(part) for part in told.types[:_TYPES_SHOWN]],
        "details": {**{name: getattr(told, name) for name in details}, "notes": list(told.notes[:100])},
    }


def _digest(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
