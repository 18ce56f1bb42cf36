"""Formats are told by a file's beginning; what cannot be told is said with what was seen."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgpack
import polars as pl
import pytest

from kvcm_platform.optimizer.traces import SourceFormat, TraceReadError, detect, ingest

FIRST_LINES: list[tuple[SourceFormat, Any]] = [
    (SourceFormat.MOONCAKE, {"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}),
    (SourceFormat.BAILIAN, {"chat_id": 1, "timestamp": 0, "input_length": 1, "hash_ids": [1]}),
    (SourceFormat.WEKA, {"id": "x", "block_size": 64, "requests": []}),
    (SourceFormat.LMCACHE, {"timestamp": 1, "lookup_id": "a", "chunk_hashes": ["0x1"]}),
    (SourceFormat.PUBLISHER_LOG, {"source": "i", "type": "CacheReclaimSubmit", "trigger_time_us": 1}),
    (SourceFormat.OPTIMIZER_SCHEMA, {"instance_id": "i", "timestamp_us": 1, "keys": [1]}),
    (SourceFormat.OPTIMIZER_SCHEMA, {"type": "get", "instance_id": "i", "timestamp_ns": 1, "keys": [1]}),
    (SourceFormat.KV_EVENTS, [1.5, [], 0]),
    (SourceFormat.KV_EVENTS, {"ts": 1, "type": "AllBlocksCleared"}),
    (SourceFormat.CAPTURE, {"kvcm_capture": 1, "instances": []}),
]


@pytest.mark.parametrize(("expected", "line"), FIRST_LINES)
def test_lines(expected: SourceFormat, line: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"\nnonsense\n" + json.dumps(line).encode()))
    assert detect(tmp_path / "a") is expected


def test_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(msgpack.packb([1.5, [], 0]))
    assert detect(tmp_path / "a") is SourceFormat.KV_EVENTS
    pl.DataFrame({"at_us": [1]}).write_parquet(tmp_path / "b")
    assert detect(tmp_path / "b") is SourceFormat.PARQUET


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"", "it is empty"),
        (b"\n \n", "blank lines only"),
        (b"TIMESTAMP,ContextTokens\n", "line 1 is not JSON but begins with b'TIMESTAMP,ContextTokens"),
        (b'{"a": 1, "b": 2}\n', "line 1 has the members a, b"),
        (b'"x"\n', "line 1 is neither a JSON object nor a batch"),
        (gzip.compress(b"{}" * 999)[:30], "damaged or cut off"),
    ],
)
def test_what_was_seen_is_said(content: bytes, seen: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceReadError) as refused:
        ingest(tmp_path / "a", tmp_path / "t")
    assert refused.value.code == "unknown_format"
    assert seen in str(refused.value)


def test_the_caller_may_know_better(tmp_path: Path) -> None:
    """A Bailian file without chats looks like Mooncake's; said to be one, its ids are hashed."""
    line = {"timestamp": 1.5, "input_length": 1, "output_length": 1, "hash_ids": [456]}
    (tmp_path / "a").write_text(json.dumps(line))
    assert ingest(tmp_path / "a", tmp_path / "told", source_format="bailian").key.tolist() == [
        -7046029254386352675
    ]
    assert ingest(tmp_path / "a", tmp_path / "seen").key.tolist() == [456]
    with pytest.raises(TraceReadError, match="is not a format") as refused:
        ingest(tmp_path / "a", tmp_path / "t", source_format="csv")
    assert (refused.value.code, refused.value.field) == ("unknown_format", "source_format")
