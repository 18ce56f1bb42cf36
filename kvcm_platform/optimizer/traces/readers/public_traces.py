"""Mooncake, Qwen-Bailian and WEKA traces, by the record rules that the replay uses too (core/traces)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from kvcm_platform.core.traces import BLOCK_TOKENS, IS_CHAINED, TraceFormat, record_parser
from kvcm_platform.optimizer.traces.chained_keys import chain_ids
from kvcm_platform.optimizer.traces.json_lines import json_objects
from kvcm_platform.optimizer.traces.request_columns import MOST_US
from kvcm_platform.optimizer.traces.source_lines import Lines
from kvcm_platform.optimizer.traces.source_request import (
    ONE_INSTANCE,
    Reader,
    ReadOptions,
    SourceRequest,
)

_OUT_OF_RANGE_US = 4.0 * MOST_US


def public_reader(trace_format: TraceFormat) -> Reader:
    """Requests as the file has them: those of WEKA are not in order of time."""

    def read(lines: Lines, options: ReadOptions) -> Iterator[SourceRequest]:
        block_tokens = BLOCK_TOKENS[trace_format]
        is_chained = IS_CHAINED[trace_format]
        parse = record_parser(trace_format)
        for number, records in json_objects(lines, options.bad_lines, parse):
            for record in records:
                instance = record.model or ONE_INSTANCE
                options.instance(instance, block_tokens=block_tokens)
                ids = record.ids if record.ids.typecode == "q" else _based(record.ids, record.base)
                yield SourceRequest(
                    _microseconds(record.at_seconds),
                    ids if is_chained else chain_ids(ids),
                    instance,
                    type=record.type,
                    session=record.session,
                    input_tokens=record.input_tokens,
                    output_tokens=record.output_tokens,
                    number=number,
                )

    return read


def _microseconds(seconds: float) -> int:
    """Of a time that is out of range, one that still is: a trace may say 1e308, which no integer is."""
    return round(max(-_OUT_OF_RANGE_US, min(_OUT_OF_RANGE_US, seconds * 1e6)))


def _based(ids: array[int], base: int) -> array[int]:
    return array("q", (np.asarray(ids, dtype=np.int64) + base).tobytes())
