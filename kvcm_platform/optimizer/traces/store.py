"""Ingested traces on disk: a directory with header.json and one .npy file a column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kvcm_platform.optimizer.trace import Trace

from .columns import map_column
from .errors import TraceReadError
from .header import FILE, header_from_json

REQUEST_COLUMNS: dict[str, Any] = {
    "at_us": np.int64,
    "event": np.int8,
    "instance": np.int32,
    "type": np.int32,
    "session": np.int32,
    "input_tokens": np.int32,
    "output_tokens": np.int32,
    "skip_n": np.int32,
    "read_n": np.int32,
}
PATH_COLUMNS: dict[str, Any] = {
    "parent": np.int32,
    "depth": np.int32,
    "key": np.int64,
    "path_instance": np.int32,
}


def open_trace(directory: Path | str) -> Trace:
    """An ingested trace with its columns as read-only memory maps: nothing is read before it is used.

    Raises TraceReadError not_a_trace.
    """
    directory = Path(directory)
    try:
        header = header_from_json(json.loads((directory / FILE).read_bytes()))
        columns = {
            name: map_column(directory / f"{name}.npy", kind)
            for name, kind in {
                **REQUEST_COLUMNS,
                "offset": np.int64,
                "path": np.int32,
                **PATH_COLUMNS,
            }.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceReadError(
            "not_a_trace", f"{directory} is not an ingested trace: {type(error).__name__}: {error}"
        ) from error
    trace = Trace(header=header, **columns)
    _check(trace, directory)
    return trace


def _check(trace: Trace, directory: Path) -> None:
    requests, paths = trace.requests, trace.distinct_blocks
    fits = (
        all(len(getattr(trace, name)) == requests for name in REQUEST_COLUMNS)
        and all(len(getattr(trace, name)) == paths for name in PATH_COLUMNS)
        and len(trace.offset) == requests + 1
        and int(trace.offset[0]) == 0
        and int(trace.offset[-1]) == trace.blocks
    )
    if not fits:
        raise TraceReadError("not_a_trace", f"{directory}: its columns do not fit together")
