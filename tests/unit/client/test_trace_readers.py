"""Readers of public traces: small hand-made files, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kvcm_platform.core.traces import (
    BadLine,
    TraceError,
    TraceFormat,
    TraceRequest,
    open_trace,
    read_trace,
)

REAL_TRACES = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "traces"


def lines(*records: Any) -> list[bytes]:
    return [json.dumps(record).encode() + b"\n" for record in records]


def mooncake(at: float, ids: list[int]) -> dict[str, Any]:
    return {"timestamp": at, "input_length": 512 * len(ids), "output_length": 7, "hash_ids": ids}


def replay_model(requests: Iterable[TraceRequest]) -> tuple[int, int]:
    """(blocks asked, blocks hit) of an endless cache: the naive model of what a replay must count."""
    seen: set[int] = set()
    asked = hit = 0
    for request in requests:
        asked += len(request.block_keys)
        for key in request.block_keys:
            if key not in seen:
                break
            hit += 1
        seen.update(request.block_keys)
    return asked, hit


class TestMooncake:
    def test_ids_are_the_keys_and_times_become_seconds(self) -> None:
        found = list(read_trace(lines(mooncake(0, [0, 5]), mooncake(3500, [0, 6])), TraceFormat.MOONCAKE))
        assert found == [
            TraceRequest(0.0, [0, 5], 1024, 7),
            TraceRequest(3.5, [0, 6], 1024, 7),
        ]

    def test_it_streams(self) -> None:
        def endless() -> Iterable[bytes]:
            while True:
                yield lines(mooncake(0, [1]))[0]

        reader = read_trace(endless(), TraceFormat.MOONCAKE)
        assert [next(reader).block_keys for _ in range(3)] == [[1], [1], [1]]

    @pytest.mark.parametrize(
        ("name", "requests", "asked", "hit"),
        [
            ("mooncake_conversation_trace.jsonl", 12_031, 288_500, 105_710),
            ("mooncake_synthetic_trace.jsonl", 3_993, 121_877, 77_953),
        ],
    )
    def test_known_totals(self, name: str, requests: int, asked: int, hit: int, tmp_path: Path) -> None:
        """The published traces give known totals; without them, a made one whose totals are plain."""
        path = REAL_TRACES / name
        if not path.exists():
            path, requests = tmp_path / name, 50
            path.write_bytes(b"".join(lines(*(mooncake(n, [0, 1, n + 2]) for n in range(50)))))
            asked, hit = 150, 98
        read = list(open_trace(path, TraceFormat.MOONCAKE))
        assert len(read) == requests
        assert replay_model(read) == (asked, hit)


class TestBailian:
    def record(self, ids: list[int], **more: Any) -> dict[str, Any]:
        return {"timestamp": 1.5, "input_length": 30, "output_length": 2, "hash_ids": ids, **more}

    def test_ids_are_hashed_with_their_prefix(self) -> None:
        """Check values of the protocol's hash: one id a block."""
        found = list(read_trace(lines(self.record([456]), self.record([-1, 5])), TraceFormat.BAILIAN))
        assert found[0] == TraceRequest(1.5, [-7046029254386352675], 30, 2, session="")
        assert found[1].block_keys == [-7046029254386353132, -8366447769517733433]

    def test_equal_ids_after_different_prefixes_are_different_blocks(self) -> None:
        first, second = read_trace(lines(self.record([1, 9]), self.record([2, 9])), TraceFormat.BAILIAN)
        assert first.block_keys[1] != second.block_keys[1]

    def test_turns_belong_to_the_chat_that_began_them(self) -> None:
        turns = lines(
            self.record([1], chat_id=10, parent_chat_id=-1, turn=1, type="text"),
            self.record([1], chat_id=11, parent_chat_id=10, turn=2, type="text"),
            self.record([1], chat_id=12, parent_chat_id=11, turn=3, type="text"),
            self.record([1], chat_id=13, parent_chat_id=-1, turn=1, type="text"),
        )
        read = list(read_trace(turns, TraceFormat.BAILIAN))
        assert [r.session for r in read] == ["10", "10", "10", "13"]
        assert [r.type for r in read] == ["text"] * 4


class TestWeka:
    def request(self, at: float, ids: list[int]) -> dict[str, Any]:
        return {"t": at, "type": "s", "in": 64 * len(ids), "out": 3, "hash_ids": ids}

    def test_sessions_are_merged_by_time_and_keep_their_ids_apart(self) -> None:
        first = {
            "id": "a",
            "requests": [
                self.request(0, [1, 2]),
                {
                    "t": 10,
                    "type": "subagent",
                    "requests": [self.request(0, [1, 3]), self.request(30, [1, 4])],
                },
                self.request(20, [1, 2, 5]),
            ],
        }
        second = {"id": "b", "requests": [self.request(5, [1])]}
        found = list(read_trace(lines(first, second), TraceFormat.WEKA))
        far = 1 << 32
        assert [(r.at_seconds, r.session, r.block_keys) for r in found] == [
            (0, "a", [1, 2]),
            (5, "b", [far + 1]),
            (10, "a", [1, 3]),
            (20, "a", [1, 2, 5]),
            (40, "a", [1, 4]),
        ]
        assert (found[3].input_tokens, found[3].output_tokens) == (192, 3)
        assert {r.type for r in found} == {"s"}

    def test_ids_that_mean_the_same_in_all_sessions_stay_as_they_are(self) -> None:
        sessions = [
            {"id": name, "hash_id_scope": "global", "requests": [self.request(0, [1])]} for name in "ab"
        ]
        assert [r.block_keys for r in read_trace(lines(*sessions), TraceFormat.WEKA)] == [[1], [1]]

    def test_a_sub_agent_may_have_sub_agents(self) -> None:
        inner = {"t": 2, "requests": [self.request(3, [9])]}
        session = {"id": "a", "requests": [{"t": 1, "requests": [inner]}]}
        (found,) = read_trace(lines(session), TraceFormat.WEKA)
        assert (found.at_seconds, found.block_keys) == (6, [9])

    def test_the_real_sample(self, tmp_path: Path) -> None:
        path = REAL_TRACES / "weka_agentic_sample.jsonl.gz"
        requests, sessions = 6_110, 89
        if not path.exists():
            path, requests, sessions = tmp_path / "w.jsonl.gz", 6, 3
            made = [{"id": str(n), "requests": [self.request(n, [1])] * 2} for n in range(3)]
            path.write_bytes(gzip.compress(b"".join(lines(*made))))
        count, names, last = 0, set(), 0.0
        for request in open_trace(path, TraceFormat.WEKA):
            assert request.at_seconds >= last
            last = request.at_seconds
            count += 1
            names.add(request.session)
        assert (count, len(names)) == (requests, sessions)


class TestBadLines:
    BAD = (
        b"{nonsense\n",
        b"[1]\n",
        b'{"timestamp": "soon", "input_length": 1, "output_length": 1, "hash_ids": []}\n',
        b'{"timestamp": 1, "input_length": 1.5, "output_length": 1, "hash_ids": []}\n',
        b'{"timestamp": 1, "input_length": 1, "output_length": -1, "hash_ids": []}\n',
        b'{"timestamp": 1, "input_length": 1, "output_length": 1}\n',
        b'{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}\n',
        b'{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [9223372036854775808]}\n',
    )

    def test_each_is_told_with_its_number_and_reason(self) -> None:
        told: list[BadLine] = []
        source = [b"\n", *lines(mooncake(0, [1])), *self.BAD, *lines(mooncake(1, [2]))]
        found = list(read_trace(source, TraceFormat.MOONCAKE, on_bad_line=told.append))
        assert [r.block_keys for r in found] == [[1], [2]]
        assert [bad.number for bad in told] == [3, 4, 5, 6, 7, 8, 9, 10]
        assert told[1].reason == "not a JSON object"
        assert told[2].reason == "timestamp is not a number"
        assert told[3].reason == "input_length is not a whole number"
        assert told[5].reason == "hash_ids is not a list"

    def test_there_is_a_limit(self) -> None:
        with pytest.raises(TraceError, match=r"line 4: .*more than 3 unusable lines"):
            list(read_trace([b"x\n"] * 9, TraceFormat.MOONCAKE, max_bad_lines=3))

    def test_a_bad_sub_agent_makes_its_session_bad(self) -> None:
        told: list[BadLine] = []
        session = {"id": "a", "requests": [{"t": 0, "requests": {"t": 1}}]}
        assert list(read_trace(lines(session), TraceFormat.WEKA, on_bad_line=told.append)) == []
        assert told == [BadLine(1, "requests is not a list")]
