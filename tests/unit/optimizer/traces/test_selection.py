"""Parts of a trace and what is told of it, against traces made of the same requests alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import TraceReadError, ingest, select, summary, summary_to_json

from .naive_paths import chains_of, check_paths, keys_of, path_ids


def records(seed: int, count: int = 60) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        {
            "chat_id": n,
            "parent_chat_id": -1 if n % 3 else n - 1,
            "timestamp": n / 2,
            "type": "text" if random.random() < 0.6 else "image",
            "input_length": 16 * 4,
            "output_length": n,
            "hash_ids": [int(k) for k in random.integers(0, 3, size=4)],
        }
        for n in range(count)
    ]


def read(path: Path, made: list[dict[str, Any]]) -> Trace:
    path.write_text("".join(json.dumps(record) + "\n" for record in made))
    return ingest(path, path.with_suffix(".trace"))


class TestSelect:
    @pytest.mark.parametrize("seed", range(3))
    def test_a_part_is_the_trace_of_its_requests(self, seed: int, tmp_path: Path) -> None:
        made = records(seed)
        trace = read(tmp_path / "all", made)
        part = select(trace, types=["text"], begin_us=5_000_000, end_us=25_000_000)
        kept = [r for r in made if r["type"] == "text" and 5 <= r["timestamp"] < 25]
        alone = read(tmp_path / "alone", kept)
        assert chains_of(part) == chains_of(alone)
        assert keys_of(part) == keys_of(alone)
        assert part.output_tokens.tolist() == [r["output_length"] for r in kept]
        assert part.at_us.tolist() == [round(1e6 * r["timestamp"]) for r in kept]
        check_paths(part)

    def test_all_is_the_trace_itself(self, tmp_path: Path) -> None:
        trace = read(tmp_path / "all", records(0))
        assert select(trace) is trace
        assert select(trace, instances=["instance"], begin_us=0) is trace

    def test_unknown_names_and_nothing_are_refused(self, tmp_path: Path) -> None:
        trace = read(tmp_path / "all", records(0))
        for options, field in (
            ({"types": ["text", "video"]}, "types"),
            ({"instances": ["x"]}, "instances"),
            ({"begin_us": 10**12}, "selection"),
        ):
            with pytest.raises(TraceReadError) as refused:
                select(trace, **options)  # type: ignore[arg-type]
            assert (refused.value.code, refused.value.field) == ("bad_option", field)


class TestSummary:
    def test_it_counts_what_is_there(self, tmp_path: Path) -> None:
        made = records(7)
        trace = read(tmp_path / "all", made)
        told = summary(trace)
        chains = [(0, record["hash_ids"]) for record in made]
        assert told.requests == 60
        assert told.blocks == 240
        assert told.distinct_blocks == 1 + max(max(ids) for ids in path_ids(chains))
        assert told.span_us == 29_500_000
        assert told.output_tokens == sum(range(60))
        assert told.sessions == len({_root(n) for n in range(60)})
        assert told.events == {"turn": 60, "read": 0, "write": 0}
        text = sum(record["type"] == "text" for record in made)
        assert {part.name: part.requests for part in told.types} == {"text": text, "image": 60 - text}
        assert {part.name: part.blocks for part in told.types} == {
            "text": 4 * text,
            "image": 240 - 4 * text,
        }
        json.dumps(summary_to_json(told))


def _root(chat: int) -> int:
    return chat if chat % 3 or chat == 0 else _root(chat - 1)
