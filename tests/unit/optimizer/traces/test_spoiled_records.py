"""Records of every format, spoiled at random: a trace comes of them, or TraceReadError, and nothing else."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from kvcm_platform.optimizer.traces import SourceFormat, TraceReadError, ingest

T = 1_700_000_000_000_000
EVENT: dict[str, Any] = {"source": "q", "trigger_time_us": T, "keys": [1, 2], "tokens": [1], "block_mask": 1}
LOG = [
    {**EVENT, "type": "GetCacheLocation", "query_type": "prefix_match", "input_tokens": 4},
    {**EVENT, "type": "StartWriteCache", "write_session_id": "a", "block_mask": [True, False]},
    {**EVENT, "type": "FinishWriteCache", "write_session_id": "a", "success_block": [True]},
]
STORED = {
    "type": "BlockStored",
    "block_hashes": [1, 2],
    "parent_block_hash": 3,
    "block_size": 16,
    "medium": "GPU",
}
REQUEST = {"t": 1, "in": 1, "out": 1, "hash_ids": [1], "type": "n", "model": "m"}
SCHEMA = {
    "keys": [1, 2],
    "total_keys": [1, 2, 3],
    "block_mask": 1,
    "query_type": "prefix_match",
    "input_len": 1,
}
RECORDS: dict[str, list[Any]] = {
    SourceFormat.MOONCAKE: [{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, 2]}],
    SourceFormat.BAILIAN: [
        {"chat_id": 1, "timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1]}
    ],
    SourceFormat.WEKA: [{"id": "a", "requests": [REQUEST, {"t": 2, "requests": [REQUEST]}]}],
    SourceFormat.LMCACHE: [
        {"timestamp": 1.5, "chunk_size": 16, "dtypes": ["float16"], "shapes": [[1]], "chunk_hashes": ["0x1"]}
    ],
    SourceFormat.PUBLISHER_LOG: LOG,
    SourceFormat.CAPTURE: [
        {"kvcm_capture": 1, "instances": [{"instance_id": "q", "block_tokens": 16}]},
        *LOG,
    ],
    SourceFormat.OPTIMIZER_SCHEMA: [{"instance_id": "i", "timestamp_us": T, **SCHEMA}],
    SourceFormat.KV_EVENTS: [
        [1.5, [STORED, {"type": "BlockRemoved", "block_hashes": [1]}], 0],
        {"ts": 1, **STORED},
    ],
}
ODD: list[Any] = [
    *(None, True, -1, 2**63, 2**64, 1e308, -0.5, "", "x", "0x", "1" * 5000, [], [[]], [None], [2**64], {}),
    *({"a": 1}, {"offset": 3}, {"bool_masks": {"values": [True]}}, -(2**63)),
]


def spoiled(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        rest = {key: kept for key, kept in value.items() if key != name}
        return rest if chance.random() < 0.25 else {**rest, name: spoiled(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], spoiled(chance, value[at]), *value[at + 1 :]]
    return chance.choice(ODD)


@pytest.mark.parametrize("source_format", RECORDS)
def test_nothing_but_its_own_error_comes_of_them(source_format: str, tmp_path: Path) -> None:
    chance = random.Random(source_format)
    source = tmp_path / "source"
    for number in range(25):
        records = [spoiled(chance, record) for record in chance.choices(RECORDS[source_format], k=5)]
        packed = source_format == SourceFormat.KV_EVENTS and number % 2
        try:
            encode = msgpack.packb if packed else lambda record: json.dumps(record).encode() + b"\n"
            data = bytearray(b"".join(encode(record) for record in records))
        except OverflowError:  # msgpack has no number beyond 64 bits
            continue
        if number % 5 == 0:
            data[chance.randrange(len(data))] = chance.randrange(256)
        source.write_bytes(data)
        try:
            trace = ingest(source, tmp_path / "t", source_format=source_format, as_turns=number % 3 == 0)
        except TraceReadError:
            continue
        assert np.all((trace.skip_n >= 0) & (trace.skip_n <= trace.read_n))
        assert np.all(trace.read_n <= np.diff(trace.offset))
        shutil.rmtree(tmp_path / "t")
