"""Ingest of public traces: known totals, path ids against a naive model, order, errors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from kvcm_platform.core.traces import TraceFormat
from kvcm_platform.core.traces import open_trace as open_for_replay
from kvcm_platform.optimizer.trace import BadLine, TraceInstance
from kvcm_platform.optimizer.traces import TraceReadError, in_order, ingest, open_trace
from tests.support.optimizer_traces import SHARED

from .naive_paths import chains_of, check_paths, keys_of, path_ids


def write(path: Path, records: list[Any]) -> Path:
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def mooncake(at: float, ids: list[int], tokens: int | None = None) -> dict[str, Any]:
    length = 512 * len(ids) if tokens is None else tokens
    return {"timestamp": at, "input_length": length, "output_length": 7, "hash_ids": ids}


class TestRealTraces:
    @pytest.mark.parametrize(
        ("name", "requests", "blocks", "distinct"),
        [
            ("mooncake_conversation_trace.jsonl", 12_031, 288_500, 182_790),
            ("mooncake_synthetic_trace.jsonl", 3_993, 121_877, 43_924),
        ],
    )
    def test_known_totals(self, name: str, requests: int, blocks: int, distinct: int, tmp_path: Path) -> None:
        path = SHARED / name
        if not path.exists():
            path = write(tmp_path / name, [mooncake(n, [0, 1, n + 2]) for n in range(50)])
            requests, blocks, distinct = 50, 150, 52
        trace = ingest(path, tmp_path / "t")
        assert (trace.requests, trace.blocks, trace.distinct_blocks) == (requests, blocks, distinct)
        assert trace.header.format == "mooncake"
        replayed = list(open_for_replay(path, TraceFormat.MOONCAKE))
        assert keys_of(trace) == [request.block_keys for request in replayed]
        assert chains_of(trace) == path_ids([(0, request.block_keys) for request in replayed])
        assert trace.input_tokens.tolist() == [request.input_tokens for request in replayed]
        assert trace.at_us.tolist() == [round(1e6 * request.at_seconds) for request in replayed]

    def test_weka_in_one_namespace(self, tmp_path: Path) -> None:
        """All sessions in one cache, in order of time, their ids apart: as the replay has them."""
        path = SHARED / "weka_agentic_sample.jsonl.gz"
        if not path.exists():
            request = {"t": 1, "in": 70, "out": 1, "hash_ids": [4], "type": "n", "model": "m"}
            sessions = [
                {"id": str(n), "block_size": 64, "requests": [{**request, "t": 3 - n}]} for n in range(3)
            ]
            path = write(tmp_path / "weka.jsonl", sessions)
        trace = ingest(path, tmp_path / "t", one_namespace=True)
        keys, tokens, sessions_seen = [], [], {}
        seen: set[int] = set()
        for request in open_for_replay(path, TraceFormat.WEKA):
            keys.append(len(request.block_keys))
            tokens.append(request.input_tokens)
            seen.update(request.block_keys)
            sessions_seen.setdefault(request.session, len(sessions_seen))
        assert np.diff(trace.offset).tolist() == keys
        assert trace.input_tokens.tolist() == tokens
        assert trace.distinct_blocks == len(seen)
        assert trace.header.instances == (TraceInstance("instance", 64),)
        assert not trace.header.has_partial_blocks
        assert int(trace.session.max()) == len(sessions_seen) - 1
        by_model = ingest(path, tmp_path / "by_model")
        assert by_model.blocks == trace.blocks
        assert by_model.distinct_blocks >= trace.distinct_blocks


class TestSmall:
    def test_relative_times_stay_and_partial_blocks_are_noticed(self, tmp_path: Path) -> None:
        trace = ingest(write(tmp_path / "a", [mooncake(5, [1, 2]), mooncake(9, [1, 3], 600)]), tmp_path / "t")
        assert trace.at_us.tolist() == [5_000, 9_000]
        assert trace.header.has_partial_blocks
        assert trace.read_n.tolist() == [2, 2]
        assert trace.skip_n.tolist() == [0, 0]
        assert trace.session.tolist() == [-1, -1]
        check_paths(trace)

    @pytest.mark.parametrize(
        ("blocks", "requests"), [(1 << 20, 1 << 16), (20, 1 << 16), (1 << 20, 7), (1, 1)]
    )
    def test_requests_of_one_moment_stay_in_the_order_of_the_file(
        self, blocks: int, requests: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Through chunks of every size, with chains of every length, none included."""
        monkeypatch.setattr(in_order, "_CHUNK_BLOCKS", blocks)
        monkeypatch.setattr(in_order, "_CHUNK_REQUESTS", requests)
        random = np.random.default_rng(5)
        made = [
            {
                **mooncake(int(random.integers(0, 5)), [int(k) for k in random.integers(0, 3, size=n % 7)]),
                "output_length": n,
            }
            for n in range(3_000)
        ]
        trace = ingest(write(tmp_path / "a", made), tmp_path / "t")
        expected = sorted(made, key=lambda record: record["timestamp"])
        assert trace.output_tokens.tolist() == [record["output_length"] for record in expected]
        assert keys_of(trace) == [record["hash_ids"] for record in expected]
        assert chains_of(trace) == path_ids([(0, record["hash_ids"]) for record in expected])
        in_order_already = ingest(write(tmp_path / "b", expected), tmp_path / "u")
        assert chains_of(in_order_already) == chains_of(trace)

    def test_packed_by_content_not_by_name(self, tmp_path: Path) -> None:
        raw = write(tmp_path / "raw", [mooncake(n, [1, n]) for n in range(5)]).read_bytes()
        for name, data in (
            ("a.jsonl", gzip.compress(raw)),
            ("b.gz", zstandard.compress(raw[:100]) + zstandard.compress(raw[100:])),
        ):
            (tmp_path / name).write_bytes(data)
            assert ingest(tmp_path / name, tmp_path / f"{name}.t").requests == 5

    def test_bad_lines_are_told_and_limited(self, tmp_path: Path) -> None:
        source = tmp_path / "a"
        source.write_bytes(b"{}x\n" + json.dumps(mooncake(0, [1])).encode() + b"\n[]\n")
        trace = ingest(source, tmp_path / "t", source_format="mooncake")
        assert trace.header.bad_line_count == 2
        assert trace.header.bad_lines[1] == BadLine(3, "not a JSON object")
        with pytest.raises(TraceReadError, match="more than 1 unusable") as refused:
            ingest(source, tmp_path / "u", source_format="mooncake", max_bad_lines=1)
        assert refused.value.code == "too_many_bad_lines"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "t"]

    def test_what_is_opened_is_what_was_written(self, tmp_path: Path) -> None:
        made = ingest(write(tmp_path / "a", [mooncake(1, [1, 2])]), tmp_path / "t", name="x", block_bytes=9)
        again = open_trace(tmp_path / "t")
        assert again.header == made.header
        assert again.header.name == "x"
        assert again.header.instances == (TraceInstance("instance", 512, 9),)
        with pytest.raises(TraceReadError) as refused:
            open_trace(tmp_path)
        assert refused.value.code == "not_a_trace"
