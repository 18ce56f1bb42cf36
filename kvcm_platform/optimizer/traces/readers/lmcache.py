"""LMCache's lookup-hash logs: what its server (`--lookup-hash-log-dir`) or its chunk statistics
(strategy `file_hash`) write, one lookup a line.

`chunk_hashes` are prefix hashes of chunks of `chunk_size` tokens as 0x strings, of any length. A lookup is a
turn: LMCache stores what was missing when the prefill is done. Sizes of chunks come from `shapes` and
`dtypes` (those of one worker).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import prod
from typing import Any

from kvcm_platform.optimizer.traces import members
from kvcm_platform.optimizer.traces.json_lines import json_objects
from kvcm_platform.optimizer.traces.source_lines import Lines
from kvcm_platform.optimizer.traces.source_request import ONE_INSTANCE, ReadOptions, SourceRequest

CHUNK_TOKENS = 256
"""LMCache's default, for logs that do not say it."""

_DTYPE_BYTES = {
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "fp8": 1,
    "uint8": 1,
    "int8": 1,
}


def read_lmcache(lines: Lines, options: ReadOptions) -> Iterator[SourceRequest]:
    def parse(number: int, record: dict[str, Any]) -> SourceRequest | None:
        return _request(number, record, options)

    for _, request in json_objects(lines, options.bad_lines, parse):
        if request is not None:
            yield request


def _request(number: int, record: dict[str, Any], options: ReadOptions) -> SourceRequest | None:
    at_us = _at_us(record.get("timestamp"))
    keys = members.block_keys(record.get("chunk_hashes"), "chunk_hashes")
    chunk = members.whole(record, "chunk_size", 0) or CHUNK_TOKENS
    name = members.text(record, "model_name", "") or ONE_INSTANCE
    if name not in options.instances:
        options.instance(name, block_tokens=chunk, block_bytes=_chunk_bytes(record))
    if not keys:
        options.notes["lookup without a whole chunk left out"] += 1
        return None
    tokens = members.whole(record, "seq_len", 0) or len(keys) * chunk
    return SourceRequest(at_us, keys, name, input_tokens=tokens, number=number)


def _at_us(value: Any) -> int:
    """Seconds, as LMCache writes them, or a date as collectors of logs make of them."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"timestamp {value!r:.40} is no date") from None
        if moment.tzinfo is None:
            raise ValueError("timestamp has no time zone")
        return round(moment.timestamp() * 1e6)
    return members.seconds_us(value, "timestamp")


def _chunk_bytes(record: dict[str, Any]) -> int:
    """0 where shapes or types are missing or unknown."""
    shapes, dtypes = record.get("shapes"), record.get("dtypes")
    if not isinstance(shapes, list) or not isinstance(dtypes, list) or len(shapes) != len(dtypes):
        return 0
    total = 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        size = _DTYPE_BYTES.get(str(dtype).removeprefix("torch."))
        if size is None or not isinstance(shape, list) or not all(isinstance(n, int) for n in shape):
            return 0
        total += size * prod(shape)
    return max(0, total)
